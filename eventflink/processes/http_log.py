"""What the HTTP servers of aiohttp log in our processes: what fails here, and not what a peer does wrong.

By itself aiohttp logs a traceback for each request that is none of HTTP, and for some whose sender is gone: whoever reaches a port could
fill the disk with them. Such a request is answered with 400, and its connection is closed; that is all that there is to say.
"""

import logging
from typing import Final

from aiohttp.http_exceptions import HttpProcessingError


class _WithoutMistakesOfPeers(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return record.exc_info is None or not isinstance(record.exc_info[1], HttpProcessingError | ConnectionError)


HTTP_LOGGER: Final = logging.getLogger(__name__)
"""For `web.AppRunner`."""

HTTP_LOGGER.addFilter(_WithoutMistakesOfPeers())
