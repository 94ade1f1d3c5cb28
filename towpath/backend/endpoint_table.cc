#include <unistd.h>

#include <towpath/backend/endpoint_table.h>
#include <towpath/backend/sealed_record.h>
#include <towpath/core/format.h>

namespace towpath::backend {
namespace {

using namespace wire;

// docs/formats/endpoint.md
constexpr Tag kTable = required(1), kProcess = required(2), kEndpoint = required(3);
constexpr FieldRule kAddressRules[] = {
    {kTable, "table", Kind::number, kOne},
    {kProcess, "process", Kind::number, kOne},
    {kEndpoint, "endpoint", Kind::number, kOne},
};
constexpr Schema kAddressSchema("endpoint address", kAddressRules);
constexpr RecordForm kAddressForm{{MessageType::connection_info, 1}, kAddressSchema};

std::uint64_t this_process() { return static_cast<std::uint64_t>(::getpid()); }

}  // namespace

Bytes encode(const EndpointAddress& address) {
  return *seal_record(kAddressForm, [&](Encoder& out) {
    out.put_number(kTable, address.table);
    out.put_number(kProcess, address.process);
    out.put_number(kEndpoint, address.endpoint);
  });
}

Result<EndpointAddress> decode_endpoint_address(ConstByteSpan bytes) {
  EndpointAddress address;
  TOWPATH_TRY(open_record(kAddressForm, bytes, [&](const Field& field) -> Status {
    if (field.tag() == kTable) address.table = field.number();
    if (field.tag() == kProcess) address.process = field.number();
    if (field.tag() == kEndpoint) address.endpoint = field.number();
    return {};
  }));
  return address;
}

EndpointAddress EndpointDirectory::address_of(std::uint64_t endpoint_id) const {
  return {.table = token_, .process = this_process(), .endpoint = endpoint_id};
}

Status EndpointDirectory::peer_gone(const AgentIdentity& peer) const {
  return error(Code::peer_lost, cat(to_string(peer), " has closed its ", names_.part));
}

Result<std::uint64_t> EndpointDirectory::number_from(const AgentIdentity& peer,
                                                     ConstByteSpan info) const {
  TOWPATH_TRY(const EndpointAddress address, decode_endpoint_address(info));
  if (address.process != this_process()) {
    return error(Code::unsupported,
                 cat(to_string(peer), " lives in process ", address.process, ", this is process ",
                     this_process()),
                 "use shm for peers on this host");
  }
  if (address.table != token_) {
    return error(Code::unsupported, cat(to_string(peer), " uses another ", names_.table),
                 cat("open both backends through types with one ", names_.table));
  }
  return address.endpoint;
}

Status EndpointDirectory::check_identity(const AgentIdentity& asked,
                                         const AgentIdentity& found) const {
  if (asked == found) return {};
  return error(Code::corrupt,
               cat("the info given for ", to_string(asked), " is that of ", to_string(found)));
}

}  // namespace towpath::backend
