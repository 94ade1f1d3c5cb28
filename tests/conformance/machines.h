// Machines: network namespaces around a router, as machines on a network whose cables can be
// pulled.
//
//   near ---+
//   far  ---+--- router         each has one device, with one address of one family
//   other --+
//
// A thread enters a machine, and what it starts (threads, processes, sockets) is there too. Where a
// cable was pulled the router drops what comes for that machine, so that nobody is notified.
// Thread: one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <towpath/sys/fd.h>

namespace towpath::backend::conformance {

enum class AddressFamily { ipv4, ipv6 };

class Machines {
 public:
  /// Empty: they can be made here.
  static std::string why_not(AddressFamily family);

  Machines(std::vector<std::string> names, AddressFamily family);
  /// Takes the calling thread back to where it was made.
  ~Machines();
  Machines(const Machines&) = delete;
  Machines& operator=(const Machines&) = delete;

  /// False: the test has failed and ends.
  bool ready() const noexcept { return ready_; }

  void enter(const std::string& name) const;
  void pull_cable(const std::string& name) const;
  void plug_in(const std::string& name) const;
  /// What came over this machine's cable so far.
  std::uint64_t received_bytes(const std::string& name) const;

 private:
  bool make();
  bool connect(const std::string& name, int number) const;
  std::string space_of(const std::string& name) const;
  std::string address(int number, int host) const;

  const std::vector<std::string> names_;
  const AddressFamily family_;
  const sys::Fd home_;
  bool ready_ = false;
};

}  // namespace towpath::backend::conformance
