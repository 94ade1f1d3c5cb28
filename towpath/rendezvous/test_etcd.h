// For tests: Debian's etcd, started with a loopback address and a directory of its own.
#pragma once

#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <towpath/core/format.h>
#include <towpath/net/http.h>
#include <towpath/run/eventually.h>
#include <towpath/sys/temporary_directory.h>

namespace towpath::rendezvous {

/// A process of the test; killed and reaped in the end.
class ChildProcess {
 public:
  explicit ChildProcess(pid_t pid) : pid_(pid) {}
  ~ChildProcess() { end(SIGKILL); }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  void signal(int number) const { kill(pid_, number); }
  void end(int signal) {
    if (pid_ <= 0) return;
    kill(pid_, signal);
    waitpid(std::exchange(pid_, -1), nullptr, 0);
  }

 private:
  pid_t pid_;
};

class TestEtcd {
 public:
  static constexpr const char* kBinary = "/usr/bin/etcd";
  static bool is_installed() { return access(kBinary, X_OK) == 0; }

  /// With `tls`: serves https:// with a certificate for its address, authority_file() is its own.
  explicit TestEtcd(bool tls = false)
      : directory_(
            sys::TemporaryDirectory::create(access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp")
                .value()),
        tls_(tls) {
    if (tls) make_certificate();
  }

  std::string url() const { return cat(tls_ ? "https" : "http", "://", host_, ":2379"); }
  std::string authority_file() const { return cat(directory_.path(), "/cert.pem"); }

  /// Starts it, and waits until it answers.
  void start() {
    const std::string peer = cat("http://", host_, ":2380");
    std::vector<std::string> words = {kBinary,
                                      "--name",
                                      "t",
                                      "--data-dir",
                                      cat(directory_.path(), "/data"),
                                      "--listen-client-urls",
                                      url(),
                                      "--advertise-client-urls",
                                      url(),
                                      "--listen-peer-urls",
                                      peer,
                                      "--initial-advertise-peer-urls",
                                      peer,
                                      "--initial-cluster",
                                      cat("t=", peer),
                                      "--heartbeat-interval",
                                      "10",
                                      "--election-timeout",
                                      "100",
                                      "--logger",
                                      "zap",
                                      "--log-outputs",
                                      cat(directory_.path(), "/log")};
    if (tls_)
      for (const std::string& word :
           {std::string("--cert-file"), authority_file(), std::string("--key-file"),
            cat(directory_.path(), "/key.pem")})
        words.push_back(word);
    process_ = std::make_unique<ChildProcess>(run(words));
    ASSERT_TRUE(run::eventually([&] { return answers(); })) << "etcd does not start";
  }
  void stop() { process_->end(SIGTERM); }
  void kill_it() { process_->end(SIGKILL); }
  /// While it is stopped: it forgets all.
  void lose_data() {
    ASSERT_EQ(std::system(cat("rm -rf ", directory_.path(), "/data").c_str()), 0);
  }
  /// One call of the gateway, as etcdctl would make it, as whom `token` was given to. The body of
  /// the answer.
  std::string call(const std::string& path, const std::string& body,
                   const std::string& token = {}) {
    net::HttpRequest request{.method = "POST", .url = url() + path, .body = body};
    if (!token.empty()) request.headers.push_back(cat("Authorization: ", token));
    return ask(std::move(request)).second;
  }

 private:
  /// Another for each process, and each etcd in it. A port that was free a moment ago may be
  /// another process' now, and one of an etcd that is stopped all the more.
  static std::string own_address() {
    static unsigned made = 0;
    const unsigned number = static_cast<unsigned>(getpid()) << 2 | (made++ & 3);
    return cat("127.", number >> 16 & 255, ".", number >> 8 & 255, ".", number & 255);
  }
  static pid_t run(const std::vector<std::string>& words) {
    std::vector<char*> argv;
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    pid_t pid = -1;
    const pid_t parent = getpid();
    pid = fork();
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);  // it must not outlive a test that crashes
      if (getppid() != parent) _exit(1);
      execv(argv[0], argv.data());
      _exit(127);
    }
    return pid;
  }
  void make_certificate() {
    const std::string& in = directory_.path();
    ASSERT_EQ(std::system(cat("openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=t "
                              "-addext subjectAltName=IP:",
                              host_, " -keyout ", in, "/key.pem -out ", in, "/cert.pem 2>/dev/null")
                              .c_str()),
              0);
  }
  std::pair<int, std::string> ask(net::HttpRequest request) {
    net::HttpClientOptions options;
    if (tls_) options.tls.authority_file = authority_file();
    auto client = net::HttpClient::open(options).value();
    std::pair<int, std::string> reported;
    bool done = false;
    (void)client->send(std::move(request), [&](const Result<net::HttpResponse>& response) {
      done = true;
      if (response.ok()) reported = {response->status, std::string(as_text(response->body))};
    });
    EXPECT_TRUE(run::eventually([&] {
      client->progress();
      return done;
    }));
    return reported;
  }
  bool answers() {
    return ask({.url = url() + "/health", .timeout = std::chrono::seconds(1)})
               .second.find("true") != std::string::npos;
  }

  sys::TemporaryDirectory directory_;
  bool tls_;
  const std::string host_ = own_address();
  std::unique_ptr<ChildProcess> process_;
};

}  // namespace towpath::rendezvous
