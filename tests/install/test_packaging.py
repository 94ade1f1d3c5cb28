#!/usr/bin/env python3
"""What the scripts that make and try packages decide, without making one: `./dev package` takes minutes."""
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import package  # noqa: E402
import package_test  # noqa: E402
import static_libraries  # noqa: E402


class PipTest(unittest.TestCase):
    def test_it_is_found_for_the_system_s_interpreter_too(self):
        python = "/usr/bin/python3"
        if not os.path.exists(python) or subprocess.run([python, "-c", "import ensurepip"], stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest(f"{python} is missing, or cannot make environments (Debian: python3-venv)")
        found = package_test.pip_wheel(python)
        self.assertRegex(found, r"/pip-[^/ ]*\.whl$")
        self.assertTrue(Path(found).is_file())

    def test_where_there_is_none_a_sentence_says_so(self):
        with tempfile.TemporaryDirectory() as folder:
            python = Path(folder) / "python"
            python.write_text("#!/bin/sh\n")
            python.chmod(0o755)
            with self.assertRaisesRegex(SystemExit, "no wheel of pip"):
                package_test.pip_wheel(python)


class WheelsTest(unittest.TestCase):
    NAMES = ["towpath-0.2.0-cp314-cp314-manylinux_2_34_x86_64.whl", "towpath-0.2.0-cp39-cp39-manylinux_2_34_x86_64.whl",
             "towpath-0.2.0-cp311-cp311-manylinux_2_34_aarch64.whl", "towpath_nixl-1.5.2-py3-none-any.whl",
             "towpath-0.2.0.tar.gz", "libtowpath-dev_0.2.0_amd64.deb"]

    def test_all_that_were_made_are_tried(self):
        self.assertEqual(list(package_test.choose_wheels(self.NAMES, None, "x86_64").items()),
                         [("3.9", self.NAMES[1]), ("3.14", self.NAMES[0])])
        self.assertEqual(package_test.choose_wheels(self.NAMES, None, "aarch64"), {"3.11": self.NAMES[2]})
        self.assertEqual(package_test.choose_wheels(self.NAMES, ["3.14"], "x86_64"), {"3.14": self.NAMES[0]})

    def test_one_that_is_wanted_and_was_not_made_is_named(self):
        with self.assertRaisesRegex(SystemExit, "no wheel for x86_64 and Python 3.11 .* but for 3.9 3.14 "):
            package_test.choose_wheels(self.NAMES, ["3.9", "3.11"], "x86_64")
        with self.assertRaisesRegex(SystemExit, "no wheel for riscv64 and Python any .* but for none "):
            package_test.choose_wheels(self.NAMES, None, "riscv64")

    def test_the_sdist_is_built_also_where_no_wheel_was_made_for_an_interpreter_here(self):
        self.assertEqual(package_test.choose_for_sdist({"3.9": "", "3.11": "", "3.12": ""}, {"3.9": "", "3.11": "", "3.14": ""}), "3.11")
        self.assertEqual(package_test.choose_for_sdist({"3.9": "", "3.11": ""}, {"3.14": ""}), "3.11")
        self.assertIsNone(package_test.choose_for_sdist({}, {"3.14": ""}))


class InterpretersTest(unittest.TestCase):
    def test_where_there_is_none_a_sentence_says_what_to_install(self):
        with self.assertRaisesRegex(SystemExit, "no Python 3.9 to 3.14 .* apt-get install python3-dev"):
            package.with_newer({}, None)
        with self.assertRaisesRegex(SystemExit, "no Python 3.8 with headers here, but none; "):
            package.with_newer({}, ["3.8"])
        self.assertEqual(package.with_newer({"3.13": "/usr/bin/python3.13"}, ["3.13"]), {"3.13": "/usr/bin/python3.13"})


class TreeTest(unittest.TestCase):
    def test_one_that_is_no_checkout_is_packaged_too(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(package, "ROOT", Path(folder)):
            self.assertEqual(package.among_sources(), set())


class VersionsTest(unittest.TestCase):
    def test_the_import_name_stays_as_it_is_for_all_patches(self):
        minor = package.VERSION.rpartition(".")[0]
        for version in (package.VERSION, f"{minor}.10"):
            with mock.patch.object(package, "VERSION", version):
                package.check_versions()
        with mock.patch.object(package, "VERSION", "0.1.9"), self.assertRaisesRegex(SystemExit, "depend on towpath==0.1.\\*"):
            package.check_versions()


class StaticLibrariesTest(unittest.TestCase):
    def test_where_debian_has_them_not_a_sentence_says_what_to_do(self):
        lacking = subprocess.CalledProcessError(1, ["dpkg-query"], stderr="dpkg-query: no packages found matching libcivetweb1\n")
        for why in (lacking, static_libraries.debian_roots.Missing("apt knows no mirror of Debian"), FileNotFoundError("dpkg-query")):
            with tempfile.TemporaryDirectory() as folder, mock.patch.object(static_libraries, "installed", side_effect=why), \
                    mock.patch.object(sys, "argv", ["static_libraries.py", folder]), \
                    self.assertRaisesRegex(SystemExit, "libraries: .*(civetweb1|mirror|dpkg-query) .*pip wheel [.]"):
                static_libraries.main()

    def test_the_folder_is_made_anew_when_anything_changed_that_it_is_made_of(self):
        versions = {"liburing-dev": "2.3-3"}
        stamps = [static_libraries.stamp(versions, []), static_libraries.stamp({"liburing-dev": "2.3-4"}, []),
                  static_libraries.stamp(versions, ["-DCMAKE_SYSTEM_PROCESSOR=aarch64"])]
        self.assertEqual(stamps[0], static_libraries.stamp(dict(versions), []))
        with mock.patch.dict(static_libraries.CURL_OPTIONS, HTTP_ONLY="OFF"):
            stamps.append(static_libraries.stamp(versions, []))
        with mock.patch.dict(static_libraries.DEBIANS, libssl=(["ssl"], "libssl-dev")):
            stamps.append(static_libraries.stamp(versions, []))
        self.assertEqual(len(set(stamps)), 5)


if __name__ == "__main__":
    unittest.main()
