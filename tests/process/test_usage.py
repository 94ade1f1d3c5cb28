"""`towpath` itself: help, usage, exit statuses."""
import re
import subprocess

import towpath_command
from towpath_command import COULD_NOT_RUN, CommandTest, OK, USAGE, main

COMMANDS = [["bench"], ["doctor"], ["explain"], ["flight"], ["record"], ["replay"], ["run"], ["serve"], ["top"], ["trace"],
            ["trace", "generate"], ["trace", "info"], ["version"]]


class UsageTest(CommandTest):
    def test_every_command_explains_itself(self):
        for words in [[], *COMMANDS]:
            with self.subTest(words):
                said = self.run_command(*words, "--help", expect=OK).stdout
                self.assertIn("Usage: towpath", said)
                self.assertLessEqual(max(map(len, said.splitlines())), 100, said)

    def test_every_command_is_listed(self):
        said = self.run_command("--help").stdout
        listed = said.partition("Subcommands:\n")[2].partition("\n\n")[0]
        self.assertEqual(set(re.findall(r"^  (\w+) ", listed, re.M)), {words[0] for words in COMMANDS})

    def test_examples_are_shown(self):
        for words in (["doctor"], ["replay"], ["run"], ["top"], ["trace", "generate"], ["trace", "info"]):
            self.assertIn("Examples:\n  towpath " + " ".join(words),
                          self.run_command(*words, "--help").stdout)

    def test_a_command_line_that_makes_no_sense_is_reported_from_a_failure(self):
        for words in ([], ["pigeon"], ["trace"], ["doctor", "--pigeon"], ["trace", "info"],
                      ["trace", "generate", "--requests", "many"]):
            with self.subTest(words):
                done = self.run_command(*words, expect=USAGE)
                self.assertEqual(done.stdout, "")
                self.assertIn("--help", done.stderr)

    def test_help_that_cannot_be_printed_is_a_failure(self):
        for words in (["--help"], ["bench", "--help"], ["--version"]):
            with self.subTest(words), open("/dev/full", "w") as full:
                done = subprocess.run([towpath_command.COMMAND, *words], stdout=full, stderr=subprocess.PIPE, text=True)
                self.assertEqual(done.returncode, COULD_NOT_RUN)
                self.assertIn("standard output", done.stderr)

    def test_a_directory_in_place_of_a_file_is_no_mistake_of_the_command_line(self):
        for words in (["trace", "info"], ["flight"], ["replay", "--trace"]):
            with self.subTest(words):
                self.assertIn("is a directory", self.run_command(*words, self.folder, expect=COULD_NOT_RUN).stderr)

    def test_version_is_one_line(self):
        for words in ("version", "--version"):
            self.assertRegex(self.run_command(words).stdout, r"\Atowpath \d+\.\d+\.\d+\n\Z")

    def test_a_typo_names_the_command_that_was_meant(self):
        for words, meant in ((["repaly"], "replay"), (["trace", "genrate"], "generate"), (["docter", "--json", "-"], "doctor")):
            with self.subTest(words):
                self.assertIn(f"did you mean '{meant}'?", self.run_command(*words, expect=USAGE).stderr)
        self.assertNotIn("did you mean", self.run_command("pigeon", expect=USAGE).stderr)

    def test_a_typo_names_the_option_that_was_meant(self):
        for words, meant in ((["replay", "--spede", "2"], "--speed"), (["bench", "--op-type", "READ"], "--op_type"),
                             (["replay", "--host_blocks=64"], "--host-blocks")):
            with self.subTest(words):
                self.assertIn(f"did you mean '{meant}'?", self.run_command(*words, expect=USAGE).stderr)
        self.assertIn("there is no option '--pigeon'\n", self.run_command("doctor", "--pigeon", expect=USAGE).stderr)

    def test_a_directory_that_was_mistyped_is_not_made(self):
        for words, flag in ((["replay", "--requests", "2", "--directory"], "--directory"),
                            (["bench", "--backend", "POSIX", "--target_seg_type", "FILE", "--filepath"], "--filepath"),
                            (["explain", "--remote", "disk", "--filepath"], "--filepath"),
                            (["explain", "--local", "disk", "--filepath"], "--filepath")):
            with self.subTest(words):
                said = self.run_command(*words, str(self.folder / "typo"), expect=COULD_NOT_RUN).stderr
                self.assertIn("there is no directory", said)
                self.assertIn(flag, said)
                self.assertFalse((self.folder / "typo").exists())

    def test_an_option_of_files_that_are_not_kept_names_the_directory_that_is_missing(self):
        for words in (["--disk", "1GiB"], ["--direct"]):
            with self.subTest(words):
                said = self.run_command("serve", "--memory", "1MiB", "--socket", self.folder / "serve", *words, expect=USAGE).stderr
                self.assertIn(f"{words[0]} requires --directory", said)

    def test_a_flag_that_turns_something_off_is_shown_by_its_name(self):
        for words in COMMANDS:
            self.assertNotIn("{false}", self.run_command(*words, "--help").stdout)


if __name__ == "__main__":
    main()
