"""A conversation's journal: bytes on disk, and memory and seconds of playing, folding, reading and showing it.

Doctor and patient are models of ``provider.py``, whose replies have 16 words; each call repeats the conversation before
it. A journal that stores every request grows with the square of the conversation, as the column ``requests`` does.
Every row is a separate process. The first row is an ordinary conversation, the last one as long as a run has had.
"""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import orjson
from bench_engine import in_a_database
from common import SMOKE, provider, table

from core.asking.memory import JournaledReplies
from core.datasets.library import library
from core.debugger.stored import load_steps
from core.frameworks.base import Campaign
from core.frameworks.casting import CastNames
from core.frameworks.craftmd import CraftMdSettings
from core.jobs.engine import Options, run_trials
from core.jobs.plan import campaign_of, header_of, trials_of
from core.jobs.progress import Progress, Stop
from core.jobs.run import begin, player_of
from core.journal import ReplyLine, journal_path, read_lines
from core.models.registry import load_registry
from core.models.settings import SHIPPED
from core.store.database import Store
from core.store.fold import fold
