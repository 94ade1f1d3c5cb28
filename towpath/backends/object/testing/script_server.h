// For tests: a server written in Python. It says "ready PORT" when it serves at that port of
// 127.0.0.1, and ends when its standard input does: with this object, or with the test, however
// that ends.
// Thread: one at a time.
#pragma once

#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <towpath/core/check.h>
#include <towpath/sys/fd.h>

namespace towpath::backends::object::testing {

class ScriptServer {
 public:
  /// Debian's: the one that its packages belong to.
  static constexpr const char* kPython = "/usr/bin/python3";
  static bool is_installed() { return ::access(kPython, X_OK) == 0; }

  /// `words`: the script and its arguments.
  explicit ScriptServer(std::vector<std::string> words) {
    int input[2];
    int output[2];
    TOWPATH_CHECK(::pipe2(input, O_CLOEXEC) == 0 && ::pipe2(output, O_CLOEXEC) == 0, "no pipe");
    // By its whole name: it looks for its modules beside whatever PATH finds under a short one.
    words.insert(words.begin(), kPython);
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(input[0], STDIN_FILENO);
      ::dup2(output[1], STDOUT_FILENO);
      ::execv(kPython, argv.data());
      ::_exit(127);
    }
    ::close(input[0]);
    ::close(output[1]);
    alive_ = sys::Fd(input[1]);
    const sys::Fd said(output[0]);
    std::string line;
    char letter = 0;
    while (::read(said.get(), &letter, 1) == 1 && letter != '\n') line.push_back(letter);
    TOWPATH_CHECK(line.starts_with("ready "), "a server of the tests does not start");
    port_ = line.substr(line.find(' ') + 1);
  }
  ~ScriptServer() {
    alive_.reset();
    ::waitpid(pid_, nullptr, 0);
  }
  ScriptServer(const ScriptServer&) = delete;
  ScriptServer& operator=(const ScriptServer&) = delete;

  const std::string& port() const noexcept { return port_; }

 private:
  pid_t pid_ = -1;
  sys::Fd alive_;
  std::string port_;
};

}  // namespace towpath::backends::object::testing
