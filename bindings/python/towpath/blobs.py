"""Named blobs in a folder, from the command line.

    python3 -m towpath.blobs save    FOLDER NAME FILE [--context TEXT]
    python3 -m towpath.blobs restore FOLDER NAME FILE [--context TEXT]
    python3 -m towpath.blobs list    FOLDER
    python3 -m towpath.blobs verify  FOLDER [NAME]
    python3 -m towpath.blobs remove  FOLDER NAME

FILE may be - for standard input or output. Exit status: 0 all is well; 1 a blob is not what was saved;
2 the command line makes no sense; 3 it could not be done.
"""
import argparse
import sys
from pathlib import Path

from towpath.connector import Blobs
from towpath.errors import Corrupt, Error


def _say(text):
    """A line. A name may be any bytes, and what a terminal does not show, or would act on, is shown as an escape."""
    shown = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)
    encoding = sys.stdout.encoding or "utf-8"
    print(shown.encode(encoding, "backslashreplace").decode(encoding))


def _blobs_of(args):
    """Only save makes the folder: a mistyped one has no blob that is good."""
    if args.work is not _save and not Path(args.folder).is_dir():
        raise FileNotFoundError(f"there is no folder {args.folder}")
    return Blobs(args.folder)


def _save(blobs, args):
    with (sys.stdin.buffer if args.file == "-" else open(args.file, "rb")) as file:
        blobs.save(args.name, file.read(), context=args.context)


def _restore(blobs, args):
    data = blobs.restore(args.name, context=args.context)  # nothing is written before it is proven
    with (sys.stdout.buffer if args.file == "-" else open(args.file, "wb")) as file:
        file.write(data)


def _list(blobs, _):
    wrong = 0
    for entry in blobs.list():
        wrong += entry["error"] is not None
        _say(f"{entry['length']:>16,}  {entry['name'] or entry['file']}  "
             f"{entry['error'] or entry['context']}")
    return int(wrong > 0)


def _verify(blobs, args):
    if args.name is not None:
        blobs.verify(args.name)
        _say(f"good   {args.name}")
        return 0
    wrong = 0
    for entry in blobs.list():
        try:
            if entry["error"]:
                raise entry["error"]
            blobs.verify(entry["name"])
            _say(f"good   {entry['name']}")
        except Error as error:
            wrong += 1
            _say(f"WRONG  {entry['name'] or entry['file']}: {error}")
    return int(wrong > 0)


def _remove(blobs, args):
    blobs.remove(args.name)


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python3 -m towpath.blobs", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for work, words in ((_save, "name file"), (_restore, "name file"), (_list, ""),
                        (_verify, "name?"), (_remove, "name")):
        command = commands.add_parser(work.__name__[1:])
        command.set_defaults(work=work)
        command.add_argument("folder")
        for word in words.split():
            command.add_argument(word.rstrip("?"), nargs="?" if word.endswith("?") else None)
        if "file" in words:
            command.add_argument("--context", default="", help="what the blob is of")
    args = parser.parse_args(arguments)
    try:
        return args.work(_blobs_of(args), args) or 0
    except (Error, OSError) as error:
        print(f"towpath.blobs: {error}", file=sys.stderr)
        return 1 if isinstance(error, Corrupt) else 3


if __name__ == "__main__":
    sys.exit(main())
