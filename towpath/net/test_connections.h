// For tests of listeners: connections from any address of the loopback, and whether they last.
#pragma once

#include <cerrno>
#include <cstdint>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <towpath/sys/fd.h>

namespace towpath::net {

inline sockaddr_in ipv4(const char* host, std::uint16_t port) {
  sockaddr_in address{.sin_family = AF_INET, .sin_port = htons(port)};
  ::inet_pton(AF_INET, host, &address.sin_addr);
  return address;
}

/// Blocking.
inline sys::Fd connect_from(const char* host, const sockaddr_in& to) {
  sys::Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in from = ipv4(host, 0);
  EXPECT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&from), sizeof from), 0);
  EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
  return socket;
}

/// Takes a byte, if there is one.
inline bool is_closed(int fd) {
  char nothing = 0;
  const ssize_t got = ::recv(fd, &nothing, 1, MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno == ECONNRESET);
}

}  // namespace towpath::net
