#include <algorithm>
#include <array>

#include <towpath/backends/nvme/nvme_status.h>
#include <towpath/core/format.h>

namespace towpath::backends::nvme {
namespace {

struct Known {
  unsigned type;
  unsigned code;
  Code means;
  bool passes;  // may go away by itself
  std::string_view name;
};

// NVM Express Base Specification 2.0, figures of "Status Code"; those that I/O can meet.
constexpr std::array kKnown = {
    Known{0, 0x01, Code::unsupported, false, "Invalid Command Opcode"},
    Known{0, 0x02, Code::unsupported, false, "Invalid Field in Command"},
    Known{0, 0x03, Code::internal, false, "Command ID Conflict"},
    Known{0, 0x04, Code::io_error, true, "Data Transfer Error"},
    Known{0, 0x05, Code::unavailable, false, "Commands Aborted due to Power Loss Notification"},
    Known{0, 0x06, Code::io_error, true, "Internal Error"},
    Known{0, 0x07, Code::unavailable, true, "Command Abort Requested"},
    Known{0, 0x08, Code::unavailable, true, "Command Aborted due to SQ Deletion"},
    Known{0, 0x0B, Code::not_found, false, "Invalid Namespace or Format"},
    Known{0, 0x0C, Code::internal, false, "Command Sequence Error"},
    Known{0, 0x13, Code::internal, false, "PRP Offset Invalid"},
    Known{0, 0x15, Code::denied, false, "Operation Denied"},
    Known{0, 0x1C, Code::io_error, false, "Sanitize Failed"},
    Known{0, 0x1D, Code::unavailable, false, "Sanitize In Progress"},
    Known{0, 0x20, Code::denied, false, "Namespace is Write Protected"},
    Known{0, 0x21, Code::unavailable, true, "Command Interrupted"},
    Known{0, 0x22, Code::unavailable, true, "Transient Transport Error"},
    Known{0, 0x80, Code::out_of_range, false, "LBA Out of Range"},
    Known{0, 0x81, Code::exhausted, false, "Capacity Exceeded"},
    Known{0, 0x82, Code::unavailable, true, "Namespace Not Ready"},
    Known{0, 0x83, Code::denied, false, "Reservation Conflict"},
    Known{0, 0x84, Code::unavailable, false, "Format In Progress"},
    Known{1, 0x80, Code::unsupported, false, "Conflicting Attributes"},
    Known{1, 0x81, Code::unsupported, false, "Invalid Protection Information"},
    Known{1, 0x82, Code::denied, false, "Attempted Write to Read Only Range"},
    Known{1, 0xB8, Code::unsupported, false, "Zone Boundary Error"},
    Known{1, 0xB9, Code::exhausted, false, "Zone Is Full"},
    Known{1, 0xBA, Code::denied, false, "Zone Is Read Only"},
    Known{1, 0xBB, Code::io_error, false, "Zone Is Offline"},
    Known{1, 0xBC, Code::unsupported, false, "Zone Invalid Write"},
    Known{2, 0x80, Code::io_error, false, "Write Fault"},
    Known{2, 0x81, Code::io_error, false, "Unrecovered Read Error"},
    Known{2, 0x82, Code::corrupt, false, "End-to-end Guard Check Error"},
    Known{2, 0x83, Code::corrupt, false, "End-to-end Application Tag Check Error"},
    Known{2, 0x84, Code::corrupt, false, "End-to-end Reference Tag Check Error"},
    Known{2, 0x85, Code::io_error, false, "Compare Failure"},
    Known{2, 0x86, Code::denied, false, "Access Denied"},
    Known{2, 0x87, Code::io_error, false, "Deallocated or Unwritten Logical Block"},
    Known{3, 0x00, Code::unavailable, true, "Internal Path Error"},
    Known{3, 0x01, Code::unavailable, false, "Asymmetric Access Persistent Loss"},
    Known{3, 0x02, Code::unavailable, false, "Asymmetric Access Inaccessible"},
    Known{3, 0x03, Code::unavailable, true, "Asymmetric Access Transition"},
    Known{3, 0x60, Code::unavailable, true, "Controller Pathing Error"},
    Known{3, 0x70, Code::unavailable, true, "Host Pathing Error"},
    Known{3, 0x71, Code::unavailable, true, "Command Aborted By Host"},
};

const Known* find(NvmeStatus status) noexcept {
  const auto found = std::ranges::find_if(kKnown, [&](const Known& known) {
    return known.type == status.type() && known.code == status.code();
  });
  return found == kKnown.end() ? nullptr : &*found;
}

std::string_view type_name(unsigned type) noexcept {
  switch (type) {
    case 0: return "generic";
    case 1: return "command specific";
    case 2: return "media and data integrity";
    case 3: return "path related";
    case 7: return "vendor specific";
    default: return "reserved";
  }
}

std::string hint_for(Code code) {
  switch (code) {
    case Code::out_of_range: return "the namespace is shorter than its region: register it anew";
    case Code::denied: return "look at its protection and reservations (nvme resv-report)";
    case Code::unavailable: return "look whether the drive is live (nvme list-subsys), then repeat";
    case Code::exhausted:
      return "free blocks of a thin namespace (deallocate), or use a larger one";
    case Code::not_found: return "attach the namespace, register it anew";
    case Code::unsupported: return "look what the drive supports (nvme id-ctrl, nvme id-ns)";
    case Code::corrupt: return "write the blocks anew: what the drive read is not what was written";
    case Code::internal: return "this is a fault of Towpath or of the kernel: please report it";
    default: return "look at the drive's log (nvme smart-log, nvme error-log)";
  }
}

}  // namespace

std::string_view name_of(NvmeStatus status) noexcept {
  const Known* known = find(status);
  return known == nullptr ? std::string_view() : known->name;
}

std::string to_string(NvmeStatus status) {
  const std::string_view name = name_of(status);
  return cat(name.empty() ? "NVMe status" : name, " (type ", status.type(), " ",
             type_name(status.type()), ", code ", hex(status.code()),
             status.do_not_retry() ? ", do not retry)" : ")");
}

bool is_worth_a_retry(NvmeStatus status) noexcept {
  const Known* known = find(status);
  return !status.do_not_retry() && known != nullptr && known->passes;
}

Status to_status(NvmeStatus status, std::string what) {
  const Known* known = find(status);
  const Code code = known == nullptr ? Code::io_error : known->means;
  return error(code, cat(what, ": ", to_string(status)), hint_for(code));
}

}  // namespace towpath::backends::nvme
