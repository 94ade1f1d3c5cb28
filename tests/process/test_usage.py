"""`towpath` itself: help, usage, exit statuses."""
from towpath_command import CommandTest, OK, USAGE, main

COMMANDS = [["doctor"], ["replay"], ["run"], ["top"], ["trace"], ["trace", "generate"], ["trace", "info"], ["version"]]


class UsageTest(CommandTest):
    def test_every_command_explains_itself(self):
        for words in [[], *COMMANDS]:
            with self.subTest(words):
                said = self.run_command(*words, "--help", expect=OK).stdout
                self.assertIn("Usage: towpath", said)
                self.assertLessEqual(max(map(len, said.splitlines())), 100, said)

    def test_every_command_is_listed(self):
        said = self.run_command("--help").stdout
        for words in COMMANDS:
            self.assertIn(words[0], said)

    def test_examples_are_shown(self):
        for words in (["doctor"], ["replay"], ["run"], ["top"], ["trace", "generate"], ["trace", "info"]):
            self.assertIn("Examples:\n  towpath " + " ".join(words),
                          self.run_command(*words, "--help").stdout)

    def test_a_command_line_that_makes_no_sense_is_told_from_a_failure(self):
        for words in ([], ["pigeon"], ["trace"], ["doctor", "--pigeon"], ["trace", "info"],
                      ["trace", "generate", "--requests", "many"]):
            with self.subTest(words):
                done = self.run_command(*words, expect=USAGE)
                self.assertEqual(done.stdout, "")
                self.assertIn("--help", done.stderr)

    def test_version_is_one_line(self):
        self.assertRegex(self.run_command("version").stdout, r"\Atowpath \d+\.\d+\.\d+\n\Z")


if __name__ == "__main__":
    main()
