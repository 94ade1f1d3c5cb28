#include <iterator>

#include <towpath/memory/registered.h>

namespace towpath::memory::internal {

bool is_known(const Registration& registration, const Registrar& registrar,
              const RegisterOptions& options) {
  if (!registration.is_registered() || registration.agent_name() != registrar.name()) return false;
  const auto have = registration.backends();
  const auto there = std::ranges::count_if(options.backends, [&](const std::string& wanted) {
    return std::ranges::find(have, wanted) != have.end();
  });
  const bool one_will_do = options.any_of_named && there > 0;
  return one_will_do || there == std::ssize(options.backends);
}

Status known_elsewhere(const Registration& registration, const Registrar& registrar) {
  std::string backends;
  for (const std::string& name : registration.backends())
    backends += cat(backends.empty() ? "" : ", ", printable(name));
  return error(Code::already_exists,
               cat("cannot register ", to_string(registration.descriptor()), " with agent '",
                   printable(registrar.name()), "': it is registered with agent '",
                   printable(registration.agent_name()), "' (", backends, ")"),
               "register its storage() once more, or take it out with into_storage() first");
}

}  // namespace towpath::memory::internal
