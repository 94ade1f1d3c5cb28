// What the running kernel was built with. Thread: any.
#pragma once

#include <optional>
#include <string>

#include <towpath/sys/machine.h>

namespace towpath::sys {

struct KernelOption {
  std::string name;    ///< "CONFIG_PCI_P2PDMA"
  std::string symbol;  ///< that only a kernel with it has; asked where no configuration is shown
};

struct KernelAnswer {
  std::optional<bool> built_in;  ///< nothing: the kernel does not report
  std::string source;            ///< the file that reported, or each that did not and why
};

/// Asks `boot`/config-RELEASE, then /proc/config.gz, then /proc/kallsyms; each is read with a
/// bound.
KernelAnswer built_with(const KernelOption& option, const MachineRoot& root = {},
                        const std::string& boot = "/boot");

}  // namespace towpath::sys
