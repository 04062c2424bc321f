"""The recomputed tables are stored with the digest of the release and the version of the program."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import AnamnesisError
from core.measures.reproduce import remarks
from core.measures.reproduce.release import Reproduction
from core.measures.reproduce.remarks import read_reproduction, reproduce
from core.store.database import Store
from tests.core.measures.reproduce.small_release import a_trial, case_row, import_folder, write_release

ROWS = [case_row("case_1"), case_row("case_2")]
RIGHT = a_trial(vignette_mcq="Gout")


def test_the_result_is_read_back_until_release_or_program_changes(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(AnamnesisError, match="import craftmd"):
        read_reproduction(store)
    import_folder(store, write_release(tmp_path / "a", ROWS, {"case_1": [RIGHT], "case_2": [a_trial()]}))
    assert read_reproduction(store) is None

    result = reproduce(store)
    assert read_reproduction(store) == result

    with monkeypatch.context() as patch:
        patch.setattr(remarks, "__version__", "0.0")
        assert read_reproduction(store) is None

    with monkeypatch.context() as patch:
        patch.setattr(remarks, "FORM", remarks.FORM + 1)
        assert read_reproduction(store) is None

    import_folder(store, write_release(tmp_path / "b", ROWS, {"case_1": [RIGHT], "case_2": [RIGHT]}))
    assert read_reproduction(store) is None
    assert reproduce(store) != result


def test_tables_of_accuracy_are_published_before_the_tests(tmp_path: Path, store: Store) -> None:
    import_folder(store, write_release(tmp_path / "a", ROWS, {"case_1": [RIGHT], "case_2": [a_trial()]}))
    tables: list[Reproduction] = []
    counts: list[tuple[int, int]] = []

    result = reproduce(store, lambda done, planned: counts.append((done, planned)), tables.append)

    assert [cell for cell in result.cells if cell.arm_a is None] == list(tables[0].cells)
    assert not any(cell.arm_a for cell in tables[0].cells)
    assert (
        counts[-1][0]
        == counts[-1][1]
        == sum(cell.quantity == "p_value" and cell.recomputed is not None for cell in result.cells)
    )
