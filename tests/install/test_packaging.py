#!/usr/bin/env python3
"""What the scripts that make and try packages decide, without making one: `./dev package` takes minutes."""
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import package_test  # noqa: E402


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


if __name__ == "__main__":
    unittest.main()
