"""The smallest picture and the smallest sound."""

from __future__ import annotations

import base64
import io
import struct
import wave
import zlib


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _png() -> bytes:
    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixel = zlib.compress(b"\0\xff\0\0")
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", pixel) + _chunk(b"IEND", b"")


def _wav() -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8000)
        sound.writeframes(b"\0\0")
    return file.getvalue()


PICTURE = base64.b64encode(_png()).decode()
SOUND = base64.b64encode(_wav()).decode()
IMAGE = {"type": "image", "data": PICTURE, "mimeType": "image/png"}
AUDIO = {"type": "audio", "data": SOUND, "mimeType": "audio/wav"}


def embedded(uri: str, words: str, mime: str = "text/plain") -> dict[str, object]:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime, "text": words}}
