"""Pictures are stored by their hash after a check of their contents; other data is refused with one sentence."""

from __future__ import annotations

import base64
import hashlib
import struct
import zlib
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image as Pillow

from core import images
from core.errors import AnamnesisError, UsageError
from core.images import Image, contents, data_url, folder, keep, local_images
from tests.support.pictures import a_picture


@pytest.fixture(autouse=True)
def own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("ANAMNESIS_DB", str(tmp_path / "own" / "anamnesis.duckdb"))
    return tmp_path / "own" / "images"


def sentence(caught: pytest.ExceptionInfo[AnamnesisError]) -> str:
    words = str(caught.value)
    assert words.endswith(".")
    assert "\n" not in words
    return words


def a_png(width: int, height: int) -> bytes:
    """Return a black-and-white PNG, made without a library since libraries refuse large sizes."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    rows = zlib.compress(bytes((width // 8 + 1) * height))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("kind", "media_type", "ending"),
    [
        ("PNG", "image/png", ".png"),
        ("JPEG", "image/jpeg", ".jpg"),
        ("WEBP", "image/webp", ".webp"),
        ("GIF", "image/gif", ".gif"),
    ],
)
def test_the_type_of_a_picture_is_recognised_by_its_contents(
    kind: str, media_type: str, ending: str, own_folder: Path
) -> None:
    data = a_picture("green", kind)
    image = keep(data, "other-name.bmp")
    digest = hashlib.sha256(data).hexdigest()
    assert image == Image(sha256=digest, media_type=media_type, size=len(data), name="other-name.bmp")
    assert image.local
    assert image.path == own_folder / f"{digest}{ending}"
    assert image.path.read_bytes() == data == contents(image)
    assert [path.name for path in own_folder.iterdir()] == [image.path.name], "no partial file stays"
    head, _, body = data_url(image).partition(",")
    assert (head, base64.b64decode(body)) == (f"data:{media_type};base64", data)


def test_a_photograph_with_a_second_frame_is_a_jpeg(own_folder: Path) -> None:
    file = BytesIO()
    frames = [Pillow.new("RGB", (9, 9), colour) for colour in ("red", "blue")]
    frames[0].save(file, "MPO", save_all=True, append_images=frames[1:])
    assert keep(file.getvalue(), "phone.jpg").media_type == "image/jpeg"


def test_a_file_keeps_its_name_and_equal_files_are_stored_once(tmp_path: Path, own_folder: Path) -> None:
    (tmp_path / "rash.jpeg").write_bytes(a_picture("green", "JPEG"))
    (tmp_path / "again.jpeg").write_bytes(a_picture("green", "JPEG"))
    first, second = keep(tmp_path / "rash.jpeg"), keep(tmp_path / "again.jpeg", "other")
    assert (first.name, second.name) == ("rash.jpeg", "other")
    assert first.path == second.path
    assert len(list(own_folder.iterdir())) == 1


def test_storing_a_picture_again_repairs_a_damaged_copy() -> None:
    image = keep(a_picture())
    image.path.write_bytes(b"x" * image.size)
    keep(a_picture())
    assert contents(image) == a_picture()


def test_other_data_is_refused_with_a_sentence(own_folder: Path, subtests: pytest.Subtests) -> None:
    table: list[tuple[bytes, str]] = [
        (b"", "'x.png' is empty"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "no picture that models take: bring a PNG, JPEG, WebP or GIF"),
        (b"%PDF-1.7 " * 50, "no picture that models take"),
        (a_picture("green", "TIFF"), "no picture that models take"),
        (a_picture("green", "PNG", (200, 200))[:-200], "damaged or cut short"),
        (a_picture("green", "JPEG")[:-40], "damaged or cut short"),
        (a_picture("green", "WEBP", (200, 200))[:-40], "damaged or cut short"),
        (a_picture("green", "GIF", (200, 200))[:-40], "damaged or cut short"),
        (b"\x89PNG\r\n\x1a\n" + b"\0" * 40, "no picture that models take"),
        (a_png(8000, 7000), "unpacks to more than 50 million pixels"),
        (a_png(60_000, 4_000), "unpacks to more than 50 million pixels"),
    ]
    for data, words in table:
        with subtests.test(data=data, words=words):
            with pytest.raises(UsageError) as caught:
                keep(data, "x.png")
            assert words in sentence(caught)
            assert not own_folder.exists() or not list(own_folder.iterdir())


def test_the_bomb_is_a_small_file() -> None:
    assert len(a_png(60_000, 4_000)) < 1_000_000


def test_the_limit_is_twenty_megabytes(tmp_path: Path) -> None:
    data = a_picture("green", "PNG")
    padded = data + b"\0" * (images.MAX_BYTES - len(data))
    assert keep(padded, "just.png").size == 20 * 1024**2
    with pytest.raises(UsageError) as caught:
        keep(padded + b"\0" * 300_000, "large.png")
    assert "'large.png' has 20.3 MB, and at most 20 MB are taken" in sentence(caught)
    (tmp_path / "large.png").write_bytes(padded + b"\0")
    with pytest.raises(UsageError, match=r"at most 20 MB"):
        keep(tmp_path / "large.png")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        keep(tmp_path / "gone.png")
    assert f"'gone.png' is missing: there is no file {tmp_path / 'gone.png'}" in sentence(caught)
    with pytest.raises(UsageError, match="is a folder and not a file"):
        keep(tmp_path)
    with pytest.raises(UsageError, match="cannot be read from"):
        keep(tmp_path / ("a" * 300))


def test_an_unwritable_folder_is_reported(own_folder: Path) -> None:
    own_folder.parent.mkdir(parents=True)
    own_folder.write_text("a file where the folder should be")
    with pytest.raises(AnamnesisError) as caught:
        keep(a_picture(), "rash.png")
    assert "'rash.png' cannot be stored in" in sentence(caught)


def test_a_missing_or_changed_picture_is_reported() -> None:
    image = keep(a_picture(), "rash.png")
    image.path.write_bytes(a_picture("red"))
    with pytest.raises(UsageError) as caught:
        data_url(image)
    assert "'rash.png' has changed" in sentence(caught)
    image.path.unlink()
    with pytest.raises(UsageError) as caught:
        contents(image)
    assert f"'rash.png' is gone: there is no {image.path}" in sentence(caught)


def test_an_address_is_never_fetched() -> None:
    distant = Image(url="https://example.org/rash.png")
    assert not distant.local
    with pytest.raises(UsageError) as caught:
        data_url(distant)
    assert "https://example.org/rash.png" in sentence(caught)
    assert "never fetched" in sentence(caught)
    near = keep(a_picture())
    assert local_images((distant, near)) == (near,)
    assert folder().is_dir()
