"""Reports that are written again after a few documents more or fewer: communities that stay against cold Leiden.

DATA/multihop/musique_train100, no chat model. A report is written again if its community is new or has other members
or children, if a relation within it changed, or if a report below it is written again.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from statistics import mean

from benchmarks.meter import bound, least, measured
from kumihimo.core.records import Chunk, Community, Entity, Mention, Record, Relation, Tie
from kumihimo.core.table import Codec, Row, Table, codec
from kumihimo.index import naming
from kumihimo.index.communities import communities, modularity

_NAME = re.compile(r"[A-Z][\w'’-]*(?:\s+(?:of\s+|the\s+)?[A-Z][\w'’-]*)*")
Graph = tuple[Table[Entity], Table[Relation]]
