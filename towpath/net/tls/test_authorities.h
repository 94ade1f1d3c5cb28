// For tests: authorities, and certificates that they gave, made by the command that an
// administrator uses.
#pragma once

#include <cstdlib>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include <towpath/core/format.h>
#include <towpath/net/tls/tls_context.h>
#include <towpath/sys/temporary_directory.h>

namespace towpath::net {

/// Two, "ca" and "other"; "ca" is whom all trust.
class TestAuthorities {
 public:
  /// Empty: they can be made.
  static std::string why_not() {
    return std::system("openssl version > /dev/null 2>&1") == 0
               ? ""
               : "no openssl command: apt-get install openssl";
  }
  TestAuthorities() {
    make("ca");
    make("other");
  }
  /// `host`: "IP:10.0.0.7", say.
  TlsCertificates issue(const std::string& name, const std::string& by,
                        const std::string& host) const {
    std::ofstream(file(name + ".ext")) << "subjectAltName=" << host << "\n";
    run(cat("req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=", name, " -keyout ",
            name, ".key -out ", name, ".csr"));
    run(cat("x509 -req -in ", name, ".csr -CA ", by, ".pem -CAkey ", by,
            ".key -CAcreateserial -days 2 -extfile ", name, ".ext -out ", name, ".pem"));
    return {file(name + ".pem"), file(name + ".key"), file("ca.pem")};
  }
  /// The key of one that was issued, encrypted by a pass phrase: its file.
  std::string encrypt_key(const std::string& name) const {
    run(cat("pkcs8 -topk8 -v2 aes256 -passout pass:phrase -in ", name, ".key -out ", name,
            ".encrypted.key"));
    return file(name + ".encrypted.key");
  }
  std::string file(const std::string& name) const { return directory_.file(name); }

 private:
  void run(const std::string& arguments) const {
    const std::string command =
        cat("cd ", directory_.path(), " && openssl ", arguments, " > /dev/null 2>&1");
    EXPECT_EQ(std::system(command.c_str()), 0) << arguments;
  }
  void make(const std::string& name) const {
    run(cat("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=", name,
            " -keyout ", name, ".key -out ", name, ".pem"));
  }

  const sys::TemporaryDirectory directory_ = sys::TemporaryDirectory::create().value();
};

}  // namespace towpath::net
