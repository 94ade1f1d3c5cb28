// A user's program: fails to compile, link or run when the installed package lacks something.
#include <cstdio>

#include <towpath/core/format.h>
#include <towpath/memory/system_region.h>
#include <towpath/standard/rendezvous_url.h>
#include <towpath/standard/standard.h>

int main() {
  auto size = towpath::parse_bytes("64K");
  if (!size.ok()) return 1;
  auto region = towpath::memory::SystemRegion::allocate(*size);
  if (!region.ok()) {
    std::fprintf(stderr, "%s\n", region.status().to_string().c_str());
    return 1;
  }
  std::printf("%s\n", to_string((*region)->descriptor()).c_str());
  auto node = towpath::standard::Node::open({.name = "outside"});  // of every built-in backend
  if (!node.ok()) {
    std::fprintf(stderr, "%s\n", node.status().to_string().c_str());
    return 1;
  }
  // Refused, but what it would need, etcd's client among it, must be there.
  const auto nowhere = towpath::standard::open_rendezvous("nowhere:", (*node)->clock());
  return nowhere.code() == towpath::Code::invalid_argument ? 0 : 1;
}
