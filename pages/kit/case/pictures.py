"""The pictures of a case where it is read: small beside the words, large on demand, from their files alone.

What a picture is called where it came from is not shown, for it may tell the answer.
"""

from io import BytesIO

import streamlit as st

from core.case import Case
from core.errors import UsageError
from core.images import Image, contents
from pages.kit.look import plain

_SMALL, _LARGE = (300, 200), (680, 620)
"""The most that a picture takes on the page, width and height, beside the words and in the large view."""
_GONE = "its file is gone, or is no longer what was imported. Import the cases again, with their pictures."
_SHARP = 2
"""Pixels of a screen for one of a picture's: a small one stays sharp."""


def draw_pictures(case: Case, key: str, *, shown: bool | None = None) -> None:
    """Draw the pictures of a case, or in a sentence why one is not there; ``key`` is the place on the page.

    ``shown`` says whether the doctor of the conversation beside it was shown them, ``None`` where there is none.
    """
    if not case.images:
        return
    with st.container(horizontal=True, key=f"{key}_{case.case_key}_pictures"):
        for number, image in enumerate(case.images, start=1):
            name = f"Picture {number}" if len(case.images) > 1 else "Picture"
            with st.container(width="content", gap="xxsmall"):
                _draw(image, name, f"{key}_{case.case_key}_{number}", case)
    seen = {None: "", True: "; the doctor of this trial was shown them", False: "; this trial was played without them"}
    st.caption(f"Pictures are for the doctor alone{seen[shown]}.")


def draw_pictures_folded(case: Case, key: str) -> None:
    """Draw the pictures of a case, folded up, where it has any; ``key`` as for ``draw_pictures``."""
    if not case.images:
        return
    label = "The picture of the case" if len(case.images) == 1 else f"The {len(case.images)} pictures of the case"
    with st.expander(label, icon=":material/image:"):
        draw_pictures(case, key)


def _draw(image: Image, name: str, key: str, case: Case) -> None:
    if not image.local:
        st.markdown(
            f":gray[:material/link: {name}: only its address is known, which is never fetched.]  \n{plain(image.url)}"
        )
        return
    alt = f"{name} of the case {case.case_key}, which no words describe"
    try:
        small, width = _fitted(image.model_dump_json(), _stamp(image), _SMALL)
        st.image(small, width=width, alt=alt)
        large = st.popover(
            f"{name}, larger", icon=":material/zoom_in:", type="tertiary", key=f"{key}_large", on_change="rerun"
        )
        if large.open:
            with large:
                whole, width = _fitted(image.model_dump_json(), _stamp(image), _LARGE)
                st.image(whole, width=width, alt=alt)
    except UsageError:  # its words name the file
        st.warning(f"{name}: {_GONE}", icon=":material/broken_image:")


def _stamp(image: Image) -> str:
    """Return a text that changes whenever the file does."""
    try:
        about = image.path.stat()
    except OSError:
        return "gone"
    return f"{image.path}-{about.st_mtime_ns}-{about.st_size}"


@st.cache_data(max_entries=64, show_spinner=False)
def _fitted(image: str, stamp: str, box: tuple[int, int]) -> tuple[bytes, int]:
    """Return a picture that fits into a box, upright, and the width at which it does; raises where the file is gone."""
    from PIL import Image as Pillow  # only where there is a picture
    from PIL import ImageOps

    data = contents(Image.model_validate_json(image))
    with Pillow.open(BytesIO(data)) as opened:
        upright = ImageOps.exif_transpose(opened)
        scale = min(1.0, box[0] / upright.width, box[1] / upright.height)
        width = max(1, round(upright.width * scale))
        if upright.width <= box[0] * _SHARP and upright.height <= box[1] * _SHARP:
            return data, width
        upright.thumbnail((box[0] * _SHARP, box[1] * _SHARP))
        held = BytesIO()
        if upright.mode in ("RGB", "L"):
            upright.save(held, "JPEG", quality=92)
        else:
            upright.convert("RGBA").save(held, "PNG")
        return held.getvalue(), width
