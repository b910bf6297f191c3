"""How long a text may be is counted in the bytes that it has in a record (UTF-8), and not in characters, which have up to four (P10a)."""


def cut_bytes(text: str, max_bytes: int) -> str:
    """Return the beginning of a text that has at most so many bytes, in whole characters; half a surrogate pair becomes `?`."""
    if text.isascii():
        return text[:max_bytes]
    return text.encode(errors="replace")[:max_bytes].decode(errors="ignore")
