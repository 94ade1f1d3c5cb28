#include <towpath/core/format.h>
#include <towpath/sys/nvidia_gpus.h>
#include <towpath/sys/text_file.h>

namespace towpath::sys {
namespace {

bool has_text(const std::string& path, std::string_view beginning) {
  const auto text = read_text_file(path);
  return text.ok() && text->starts_with(beginning);
}

}  // namespace

std::vector<std::string> nvidia_gpus(const std::string& sys) {
  const std::string devices = sys + "/bus/pci/devices";
  std::vector<std::string> gpus;
  for (const std::string& name : names_in(devices)) {
    std::string device = cat(devices, "/", name);
    // Class 3 are displays and what computes without one.
    if (has_text(device + "/vendor", "0x10de") && has_text(device + "/class", "0x03"))
      gpus.push_back(std::move(device));
  }
  return gpus;
}

}  // namespace towpath::sys
