#include "guest_programs.h"

#include <iterator>
#include <sstream>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <towpath/sys/text_file.h>

namespace towpath::guest {
namespace {

constexpr const char* kSaid = "/tmp/said";

}  // namespace

Ended run(const std::string& line) {
  std::istringstream text(line);
  std::vector<std::string> words{std::istream_iterator<std::string>(text), {}};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, kSaid, O_WRONLY | O_CREAT | O_TRUNC,
                                   0600);
  pid_t child = 0;
  int status = 0;
  const int failure =
      ::posix_spawn(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  EXPECT_EQ(failure, 0) << words[0];
  if (failure != 0) return {};
  if (::waitpid(child, &status, 0) != child) return {};
  Ended ended{.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1};
  if (auto said = sys::read_text_file(kSaid); said.ok()) ended.said = *std::move(said);
  return ended;
}

bool has_program(const std::string& path) { return ::access(path.c_str(), X_OK) == 0; }

}  // namespace towpath::guest
