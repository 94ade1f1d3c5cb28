// Notifications, and the map that they are collected in.
#include <map>
#include <string>
#include <vector>

#include <towpath/compat/nixl/backends.h>

#include "bindings/nixl/call.h"
#include "bindings/nixl/lists.h"
#include "bindings/nixl/nixl_agent.h"

using namespace towpath::nixl;
using towpath::Bytes;
using towpath::Status;

namespace {

Status check_asked(NixlAgent& nixl, nixl_capi_opt_args_t options) {
  return check_notifications(nixl.agent(), types_of(backends_of(options)));
}

}  // namespace

/// By sender; a map, whose names stay where they are.
struct nixl_capi_notif_map_s {
  std::map<std::string, std::vector<Bytes>, std::less<>> by_sender;
  std::vector<const std::string*> senders;  // in the order in which they came

  void add(towpath::agent::Notification notification) {
    const auto [sender, is_new] = by_sender.try_emplace(std::move(notification.from.name));
    if (is_new) senders.push_back(&sender->first);
    sender->second.push_back(std::move(notification.message));
  }
  /// Null: nobody of that name.
  const std::vector<Bytes>* from(const char* name) const {
    const auto found = by_sender.find(std::string_view(name));
    return found != by_sender.end() ? &found->second : nullptr;
  }
};

extern "C" {

nixl_capi_status_t nixl_capi_gen_notif(nixl_capi_agent_t agent, const char* remote_agent,
                                       const void* data, size_t len,
                                       nixl_capi_opt_args_t opt_args) {
  return call(given(agent, remote_agent) && (data != nullptr || len == 0), [&] {
    Status status = check_asked(*agent->nixl, opt_args);
    if (status.ok()) status = (*agent)->agent().notify(remote_agent, lent_bytes(data, len));
    return (*agent)->report(status, "send a notification");
  });
}

nixl_capi_status_t nixl_capi_get_notifs(nixl_capi_agent_t agent, nixl_capi_notif_map_t notif_map,
                                        nixl_capi_opt_args_t opt_args) {
  return call(given(agent, notif_map), [&] {
    if (const Status status = check_asked(*agent->nixl, opt_args); !status.ok())
      return (*agent)->report(status, "get notifications");
    (*agent)->help();
    for (auto& notification : (*agent)->agent().take_notifications())
      notif_map->add(std::move(notification));
    return NIXL_CAPI_SUCCESS;
  });
}

nixl_capi_status_t nixl_capi_create_notif_map(nixl_capi_notif_map_t* notif_map) {
  return create(notif_map);
}
nixl_capi_status_t nixl_capi_destroy_notif_map(nixl_capi_notif_map_t notif_map) {
  return destroy(notif_map);
}
nixl_capi_status_t nixl_capi_notif_map_size(nixl_capi_notif_map_t map, size_t* size) {
  return answer(map, size, [](const auto& of) { return of.senders.size(); });
}
nixl_capi_status_t nixl_capi_notif_map_get_agent_at(nixl_capi_notif_map_t map, size_t index,
                                                    const char** agent_name) {
  return call(given(map, agent_name) && index < map->senders.size(), [&] {
    *agent_name = map->senders[index]->c_str();
    return NIXL_CAPI_SUCCESS;
  });
}
nixl_capi_status_t nixl_capi_notif_map_get_notifs_size(nixl_capi_notif_map_t map,
                                                       const char* agent_name, size_t* size) {
  return call(given(map, agent_name, size), [&] {
    const auto* messages = map->from(agent_name);
    if (messages == nullptr) return NIXL_CAPI_ERROR_INVALID_PARAM;
    *size = messages->size();
    return NIXL_CAPI_SUCCESS;
  });
}
nixl_capi_status_t nixl_capi_notif_map_get_notif(nixl_capi_notif_map_t map, const char* agent_name,
                                                 size_t index, const void** data, size_t* len) {
  return call(given(map, agent_name, data, len), [&] {
    const auto* messages = map->from(agent_name);
    if (messages == nullptr || index >= messages->size()) return NIXL_CAPI_ERROR_INVALID_PARAM;
    *data = (*messages)[index].data();
    *len = (*messages)[index].size();
    return NIXL_CAPI_SUCCESS;
  });
}
nixl_capi_status_t nixl_capi_notif_map_clear(nixl_capi_notif_map_t map) {
  return call(given(map), [&] {
    map->senders.clear();
    map->by_sender.clear();
    return NIXL_CAPI_SUCCESS;
  });
}

}  // extern "C"
