"""What reports of ctest say that ctest itself does not: for ./dev."""
import re
import xml.etree.ElementTree as ElementTree


def cases_of(report):
    """Of a report in JUnit's format that ctest may not have written."""
    return ElementTree.parse(report).iter("testcase") if report.exists() else ()


# What a skipped case's name and reason look like in what its program wrote: GoogleTest, unittest, pytest.
SKIPPED = [
    r"^\[ RUN      \] (?P<name>.*)\n(?P<why>(?:(?!\[ RUN).*\n)*?)\[  SKIPPED \] (?P=name) \(",
    r"^(?P<name>\w+) \(.*\) \.\.\. skipped (?P<why>['\"].*['\"])$",
    r"^SKIPPED \[\d+\] (?P<name>\S+): (?P<why>.*)$",
]


def tell_skipped(report):
    """Prints which cases of whole programs were skipped, by reason: ctest names only its own tests. Of the conformance
    suite only those that this machine cannot run: what a backend is not meant to do is no news."""
    skipped = {}
    for case in cases_of(report):
        said = case.findtext("system-out") or ""
        for found in (found for pattern in SKIPPED for found in re.finditer(pattern, said, flags=re.MULTILINE)):
            why = " ".join(re.sub(r".*: Skipped", "", found["why"]).split())
            if why.startswith("not here: ") or re.search(r"_test$|^tools\.|^python\.", case.get("name")):
                skipped.setdefault(why, []).append(found["name"])
    for reason, names in skipped.items():
        print(f"{len(names)} skipped: {reason}: {' '.join(names)}", flush=True)


def failures_of(report):
    """The tests that failed."""
    return [case for case in cases_of(report) if case.get("status") == "fail"]


# What a program of GoogleTest says of a case that did not fail: while it runs, and in the list at the end.
NO_FAILURE = [
    r"^\[ RUN      \] (.*)\n(?:(?!\[ RUN).*\n)*?\[ +(?:OK|SKIPPED) \] \1 \(.*\n",
    r"^\[  SKIPPED \] .*\n",
]


def tell_failures(report, most=8000):
    """Prints what each failing test said, without its parts that went well: in a log that was cut the
    reason must be found there, and conformance tests say 30,000 characters when all is well."""
    for case in failures_of(report):
        said = case.findtext("system-out") or ""
        for pattern in NO_FAILURE:
            said = re.sub(pattern, "", said, flags=re.MULTILINE)
        if len(said) > most:
            said = f"{said[:most // 2]}\n[... {len(said) - most} characters ...]\n{said[-most // 2:]}"
        print(f"\n--- {case.get('name')} failed after {float(case.get('time')):.1f} s:\n{said}", flush=True)
