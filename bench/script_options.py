"""What every script of bench/ takes on its command line: the same as its programs (options.cc)."""
import argparse
import json
import sys
from pathlib import Path


def common_parser(about):
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    effort = parser.add_mutually_exclusive_group()
    effort.add_argument("--quick", action="store_true", help="few rounds, small cases: does it run at all?")
    effort.add_argument("--full", action="store_true", help="many rounds, every case")
    parser.add_argument("--rounds", type=int, metavar="N", help="samples of each case, and of its reference")
    parser.add_argument("--only", default="", metavar="TEXT", help="only cases with this in 'title: case'")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to this file")
    return parser


def rounds_of(args, quick, usual, full):
    return args.rounds or (quick if args.quick else full if args.full else usual)


def finish(args, rows):
    """Writes what was measured where --json says; the status of the script. A name that no case has is a typing error."""
    if not rows:
        print(f"{Path(sys.argv[0]).name}: no case has {args.only!r} in its name", file=sys.stderr)
        return 1
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0
