"""A jar with one class, as javac has compiled it, for tests that have no compiler:

public final class Rate implements org.apache.spark.sql.api.java.UDF1<Long, Long> {
  public static String rate() { return "7"; }
  public Long call(Long amount) { return amount * Long.parseLong(rate()); }
}
"""

import base64
import zipfile
from pathlib import Path
from typing import Final

_CLASS: Final = base64.b64decode(
    "yv66vgAAAD0AKgoAAgADBwAEDAAFAAYBABBqYXZhL2xhbmcvT2JqZWN0AQAGPGluaXQ+AQADKClWCAAIAQABNwoACgALBwAMDAANAA4BAA5qYXZhL2xhbmcv"
    "TG9uZwEACWxvbmdWYWx1ZQEAAygpSgoAEAARBwASDAATABQBAARSYXRlAQAEcmF0ZQEAFCgpTGphdmEvbGFuZy9TdHJpbmc7CgAKABYMABcAGAEACXBhcnNl"
    "TG9uZwEAFShMamF2YS9sYW5nL1N0cmluZzspSgoACgAaDAAbABwBAAd2YWx1ZU9mAQATKEopTGphdmEvbGFuZy9Mb25nOwoAEAAeDAAfACABAARjYWxsAQAi"
    "KExqYXZhL2xhbmcvTG9uZzspTGphdmEvbGFuZy9Mb25nOwcAIgEAIm9yZy9hcGFjaGUvc3Bhcmsvc3FsL2FwaS9qYXZhL1VERjEBAARDb2RlAQAmKExqYXZh"
    "L2xhbmcvT2JqZWN0OylMamF2YS9sYW5nL09iamVjdDsBAApFeGNlcHRpb25zBwAnAQATamF2YS9sYW5nL0V4Y2VwdGlvbgEACVNpZ25hdHVyZQEAWExqYXZh"
    "L2xhbmcvT2JqZWN0O0xvcmcvYXBhY2hlL3NwYXJrL3NxbC9hcGkvamF2YS9VREYxPExqYXZhL2xhbmcvTG9uZztMamF2YS9sYW5nL0xvbmc7PjsAMQAQAAIA"
    "AQAhAAAABAABAAUABgABACMAAAARAAEAAQAAAAUqtwABsQAAAAAACQATABQAAQAjAAAADwABAAAAAAADEgewAAAAAAABAB8AIAABACMAAAAbAAQAAgAAAA8r"
    "tgAJuAAPuAAVabgAGbAAAAAAEEEAHwAkAAIAIwAAABUAAgACAAAACSorwAAKtgAdsAAAAAAAJQAAAAQAAQAmAAEAKAAAAAIAKQ=="
)
_CONSTANT: Final = b"\x01\x00\x01%d"
"""A text of one character, as a class file has it."""


def write_rate_jar(path: Path, rate: int) -> Path:
    """Write the jar with another rate, from 0 to 9; return where it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as jar:
        jar.writestr("Rate.class", _CLASS.replace(_CONSTANT % 7, _CONSTANT % rate))
    return path
