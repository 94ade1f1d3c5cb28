#include "fabrics.h"

#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <towpath/core/format.h>
#include <towpath/sys/fd.h>

namespace towpath::guest {
namespace {

constexpr const char* kTarget = "/sys/kernel/config/nvmet";

void write_text(const std::string& path, const std::string& text) {
  const sys::Fd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  const auto size = static_cast<ssize_t>(text.size());
  ASSERT_TRUE(file && ::write(file.get(), text.data(), text.size()) == size)
      << text << " to " << path << ": " << std::strerror(errno);
}

void mount_configuration() {
  const bool mounted =
      ::mount("config", "/sys/kernel/config", "configfs", 0, nullptr) == 0 || errno == EBUSY;
  ASSERT_TRUE(mounted) << std::strerror(errno);
}

void bring_up_loopback() {
  const sys::Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  ASSERT_EQ(::ioctl(socket.get(), SIOCGIFFLAGS, &request), 0);
  request.ifr_flags |= IFF_UP;
  ASSERT_EQ(::ioctl(socket.get(), SIOCSIFFLAGS, &request), 0);
}

void show(const std::string& serial, const std::string& device) {
  const std::string subsystem = cat(kTarget, "/subsystems/towpath-", serial);
  ASSERT_EQ(::mkdir(subsystem.c_str(), 0755), 0) << std::strerror(errno);
  write_text(subsystem + "/attr_allow_any_host", "1");
  write_text(subsystem + "/attr_serial", serial);
  ASSERT_EQ(::mkdir((subsystem + "/namespaces/1").c_str(), 0755), 0);
  write_text(subsystem + "/namespaces/1/device_path", device);
  write_text(subsystem + "/namespaces/1/enable", "1");
}

void listen(const std::string& serial) {
  const bool is_tcp = serial == "TCP";
  const std::string port = cat(kTarget, "/ports/", is_tcp ? "2" : "1");
  ASSERT_EQ(::mkdir(port.c_str(), 0755), 0) << std::strerror(errno);
  write_text(port + "/addr_trtype", is_tcp ? "tcp" : "loop");
  if (is_tcp) {
    write_text(port + "/addr_adrfam", "ipv4");
    write_text(port + "/addr_traddr", "127.0.0.1");
    write_text(port + "/addr_trsvcid", "4420");
  }
  const std::string subsystem = cat(kTarget, "/subsystems/towpath-", serial);
  const std::string link = cat(port, "/subsystems/towpath-", serial);
  ASSERT_EQ(::symlink(subsystem.c_str(), link.c_str()), 0) << std::strerror(errno);
}

}  // namespace

bool has_fabrics() { return std::filesystem::exists("/sys/module/nvmet"); }

bool is_over_fabrics(const std::string& serial) { return serial == "LOOP" || serial == "TCP"; }

void connect_fabrics(const std::string& serial) {
  if (std::filesystem::exists(cat(kTarget, "/subsystems/towpath-", serial))) return;
  ASSERT_NO_FATAL_FAILURE(mount_configuration());
  ASSERT_NO_FATAL_FAILURE(bring_up_loopback());
  ASSERT_NO_FATAL_FAILURE(show(serial, drive_called("BEHIND").block));
  ASSERT_NO_FATAL_FAILURE(listen(serial));
  const char* way =
      serial == "TCP" ? "transport=tcp,traddr=127.0.0.1,trsvcid=4420" : "transport=loop";
  write_text("/dev/nvme-fabrics", cat("nqn=towpath-", serial, ",", way));
}

}  // namespace towpath::guest
