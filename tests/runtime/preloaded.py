"""What the fork server of `forked.py` imports before it forks: all that a ready broker has."""

import gc

import numpy.typing  # noqa: F401
import uvloop  # noqa: F401

import shoal.cli.commands.serve
import shoal.cli.main
import shoal.cli.support.live.networks
import shoal.overlays.tree.system
import shoal.runtime.broker_service
import shoal.runtime.operations.logs
import shoal.runtime.serving  # noqa: F401

# Children share these pages for as long as no collection writes to them.
gc.freeze()
