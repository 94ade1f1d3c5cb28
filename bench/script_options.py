"""What every script of bench/ takes on its command line: the same as its programs (options.cc)."""
import argparse
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
