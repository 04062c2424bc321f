"""The pictures of a case: small next to the text, large in a popover, read from local files only.

The original names of pictures are not shown, because they may reveal the answer.
"""

from io import BytesIO

import streamlit as st

from core.case import Case
from core.errors import UsageError
from core.images import Image, contents
from pages.kit.look import plain
from pages.kit.names import case_name

_SMALL, _LARGE = (300, 200), (680, 620)
"""Maximum width and height of a picture in pixels, next to the text and in the popover."""
_MISSING_FILE = "its file is gone, or is no longer what was imported. Import the cases again, with their pictures."
_SHARP = 2
"""Device pixels for each pixel of the layout, so that small pictures stay sharp on dense screens."""


def draw_pictures(case: Case, key: str, *, seen_by_doctor: bool | None = None) -> None:
    """Draw the pictures of a case, or why one is missing; ``key`` is the prefix of the widget keys.

    ``seen_by_doctor`` says whether the doctor of the trial saw the pictures; ``None`` if no trial is meant.
    """
    if not case.images:
        return
    with st.container(horizontal=True, key=f"{key}_{case.case_key}_pictures"):
        for number, image in enumerate(case.images, start=1):
            name = f"Picture {number}" if len(case.images) > 1 else "Picture"
            with st.container(width="content", gap="xxsmall"):
                _draw(image, name, f"{key}_{case.case_key}_{number}", case)
    words = {None: "", True: "; the doctor of this trial saw them", False: "; this trial was played without them"}
    st.caption(f"Pictures are for the doctor alone{words[seen_by_doctor]}.")


def draw_pictures_folded(case: Case, key: str) -> None:
    """Draw the pictures of a case, folded; nothing if it has none. ``key`` as for ``draw_pictures``."""
    if not case.images:
        return
    label = "The picture of the case" if len(case.images) == 1 else f"The {len(case.images)} pictures of the case"
    with st.expander(label, icon=":material/image:"):
        draw_pictures(case, key)


def _draw(image: Image, name: str, key: str, case: Case) -> None:
    if not image.local:
        st.markdown(
            f":gray[:material/link: {name}: only its address is known; pictures are never downloaded.]  \n"
            f"{plain(image.url)}"
        )
        return
    alt = f"{name} of the case {case_name(case.case_key)}, which no words describe"
    try:
        small, width = _fitted(image.model_dump_json(), _stamp(image), _SMALL)
        st.image(small, width=width, alt=alt)
        large = st.popover(
            f"{name}, larger", icon=":material/zoom_in:", type="tertiary", key=f"{key}_large", on_change="rerun"
        )
        if large.open:
            with large:
                full_size, width = _fitted(image.model_dump_json(), _stamp(image), _LARGE)
                st.image(full_size, width=width, alt=alt)
    except UsageError:  # its message names the file, which may reveal the answer
        st.warning(f"{name}: {_MISSING_FILE}", icon=":material/broken_image:")


def _stamp(image: Image) -> str:
    try:
        file_status = image.path.stat()
    except OSError:
        return "gone"
    return f"{image.path}-{file_status.st_mtime_ns}-{file_status.st_size}"


@st.cache_data(max_entries=64, show_spinner=False)
def _fitted(image: str, stamp: str, box: tuple[int, int]) -> tuple[bytes, int]:
    """Return an upright picture that fits into ``box``, and its width; raises ``UsageError`` if the file is missing."""
    from PIL import Image as Pillow  # slow to import, and few cases have pictures
    from PIL import ImageOps

    data = contents(Image.model_validate_json(image))
    with Pillow.open(BytesIO(data)) as opened:
        upright = ImageOps.exif_transpose(opened)
        scale = min(1.0, box[0] / upright.width, box[1] / upright.height)
        width = max(1, round(upright.width * scale))
        if upright.width <= box[0] * _SHARP and upright.height <= box[1] * _SHARP:
            return data, width
        upright.thumbnail((box[0] * _SHARP, box[1] * _SHARP))
        output = BytesIO()
        if upright.mode in ("RGB", "L"):
            upright.save(output, "JPEG", quality=92)
        else:
            upright.convert("RGBA").save(output, "PNG")
        return output.getvalue(), width
