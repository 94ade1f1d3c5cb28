#include "machines.h"

#include <cstdlib>
#include <fstream>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <towpath/core/format.h>

namespace towpath::backend::conformance {
namespace {

constexpr const char* kRouter = "router";
constexpr const char* kDevice = "eth0";

bool shell(const std::string& command) { return std::system(command.c_str()) == 0; }

sys::Fd open_space(const std::string& path) {
  return sys::Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
}

}  // namespace

std::string Machines::why_not(AddressFamily family) {
  if (::geteuid() != 0) return "network namespaces need root: run the tests as root";
  if (!shell("ip -V >/dev/null 2>&1")) return "there is no `ip`: apt-get install iproute2";
  const std::string name = cat("tp", ::getpid());
  if (!shell(cat("ip netns add ", name, " 2>/dev/null")))
    return "no network namespace can be made here: run with CAP_SYS_ADMIN";
  const bool works = shell(
      cat("ip -n ", name, " link add name va type veth peer name vb && ip -n ", name, " addr add ",
          family == AddressFamily::ipv6 ? "fd77::1/64 nodad" : "10.77.0.1/24", " dev va"));
  shell(cat("ip netns del ", name));
  return works ? "" : "a namespace here has no veth pairs, or none with such an address";
}

Machines::Machines(std::vector<std::string> names, AddressFamily family)
    : names_(std::move(names)),
      family_(family),
      home_(open_space("/proc/thread-self/ns/net")),
      ready_(make()) {
  EXPECT_TRUE(ready_) << "the machines could not be connected";
}

Machines::~Machines() {
  ::setns(home_.get(), CLONE_NEWNET);
  for (const std::string& name : names_) shell(cat("ip netns del ", space_of(name)));
  shell(cat("ip netns del ", space_of(kRouter)));
}

std::string Machines::space_of(const std::string& name) const {
  return cat("tp", ::getpid(), "-", name);
}

// The router is host 1 of each of its networks.
std::string Machines::address(int number, int host) const {
  return family_ == AddressFamily::ipv4 ? cat("10.77.", number, ".", host)
                                        : cat("fd77:", number, "::", host);
}

bool Machines::make() {
  if (!shell(cat("ip netns add ", space_of(kRouter)))) return false;
  enter(kRouter);
  // Files of /proc/sys/net are those of the namespace of whoever opens them.
  std::ofstream("/proc/sys/net/ipv4/ip_forward") << "1";
  std::ofstream("/proc/sys/net/ipv6/conf/all/forwarding") << "1";
  std::ofstream("/proc/sys/net/ipv6/conf/all/keep_addr_on_down") << "1";
  ::setns(home_.get(), CLONE_NEWNET);
  int number = 0;
  for (const std::string& name : names_) {
    if (!connect(name, ++number)) return false;
  }
  return true;
}

bool Machines::connect(const std::string& name, int number) const {
  const bool is_ipv4 = family_ == AddressFamily::ipv4;
  const std::string ip = is_ipv4 ? "ip" : "ip -6";
  const std::string bits = is_ipv4 ? "/24" : "/64 nodad";
  const std::string network = cat(address(number, 0), is_ipv4 ? "/24" : "/64");
  const std::string here = space_of(name);
  const std::string there = space_of(kRouter);
  return shell(cat("ip netns add ", here)) && shell(cat("ip -n ", here, " link set lo up")) &&
         shell(cat("ip link add name ", kDevice, " netns ", here, " type veth peer name ", name,
                   " netns ", there)) &&
         shell(cat(ip, " -n ", here, " addr add ", address(number, 2), bits, " dev ", kDevice)) &&
         shell(cat(ip, " -n ", there, " addr add ", address(number, 1), bits, " dev ", name)) &&
         shell(cat("ip -n ", here, " link set ", kDevice, " up")) &&
         shell(cat("ip -n ", there, " link set dev ", name, " up")) &&
         shell(cat(ip, " -n ", here, " route add default via ", address(number, 1))) &&
         // What is left when the cable is pulled.
         shell(cat(ip, " -n ", there, " route add blackhole ", network, " metric 9999"));
}

void Machines::enter(const std::string& name) const {
  const sys::Fd space = open_space(cat("/run/netns/", space_of(name)));
  EXPECT_EQ(::setns(space.get(), CLONE_NEWNET), 0) << name;
}

void Machines::pull_cable(const std::string& name) const {
  EXPECT_TRUE(shell(cat("ip -n ", space_of(kRouter), " link set dev ", name, " down")));
}

void Machines::plug_in(const std::string& name) const {
  EXPECT_TRUE(shell(cat("ip -n ", space_of(kRouter), " link set dev ", name, " up")));
}

std::uint64_t Machines::received_bytes(const std::string& name) const {
  // /proc/net is that of the reader's namespace; sysfs would be that of whoever mounted it.
  const sys::Fd back = open_space("/proc/thread-self/ns/net");
  enter(name);
  std::ifstream lines("/proc/thread-self/net/dev");
  std::uint64_t bytes = 0;
  for (std::string word; lines >> word;) {
    if (word == cat(kDevice, ":")) lines >> bytes;
  }
  ::setns(back.get(), CLONE_NEWNET);
  return bytes;
}

}  // namespace towpath::backend::conformance
