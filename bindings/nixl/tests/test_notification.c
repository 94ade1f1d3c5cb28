/* Notifications: by themselves, with transfers, and the map. */
#include <stdlib.h>

#include "agents.h"

static char mine[256], theirs[256];

static bool says(nixl_capi_notif_map_t map, size_t index, const char* text) {
  const void* data = NULL;
  size_t size = 0;
  OK(nixl_capi_notif_map_get_notif(map, "sender", index, &data, &size));
  return size == strlen(text) && (size == 0 || memcmp(data, text, size) == 0);
}

static void messages_arrive_in_order(void) {
  struct side sender = open_side("sender", peer_plugin());
  struct side receiver = open_side("receiver", peer_plugin());
  nixl_capi_notif_map_t map = NULL;
  size_t count = 9;
  const char* name = NULL;
  NOT_FOUND(nixl_capi_gen_notif(sender.agent, "receiver", "one", 3, NULL));
  introduce(&sender, &receiver);
  OK(nixl_capi_create_notif_map(&map));
  OK(nixl_capi_gen_notif(sender.agent, "receiver", "one", 3, NULL));
  OK(nixl_capi_gen_notif(sender.agent, "receiver", "two", 3, sender.args));
  OK(nixl_capi_gen_notif(sender.agent, "receiver", NULL, 0, NULL));
  CHECK(wait_notifications(receiver.agent, map, "sender", 3));
  OK(nixl_capi_notif_map_size(map, &count));
  CHECK(count == 1);
  OK(nixl_capi_notif_map_get_agent_at(map, 0, &name));
  CHECK(name != NULL && strcmp(name, "sender") == 0);
  CHECK(says(map, 0, "one") && says(map, 1, "two") && says(map, 2, ""));
  OK(nixl_capi_gen_notif(sender.agent, "receiver", "four", 4, NULL));
  CHECK(wait_notifications(receiver.agent, map, "sender", 4)); /* added, not replaced */
  OK(nixl_capi_notif_map_clear(map));
  OK(nixl_capi_notif_map_size(map, &count));
  CHECK(count == 0);
  OK(nixl_capi_destroy_notif_map(map));
  close_side(&receiver);
  close_side(&sender);
}

static void post(nixl_capi_agent_t agent, nixl_capi_xfer_req_t request, nixl_capi_opt_args_t args) {
  CHECK(nixl_capi_post_xfer_req(agent, request, args) >= 0);
  OK(status_at_end(agent, request));
}

static void a_transfer_brings_the_message_that_it_was_given_last(void) {
  struct side sender = open_side("sender", peer_plugin());
  struct side receiver = open_side("receiver", peer_plugin());
  nixl_capi_xfer_dlist_t local = xfer_list(NIXL_CAPI_MEM_DRAM, mine, sizeof mine);
  nixl_capi_xfer_dlist_t remote = xfer_list(NIXL_CAPI_MEM_DRAM, theirs, sizeof theirs);
  nixl_capi_opt_args_t args = NULL, without = NULL;
  nixl_capi_xfer_req_t request = NULL;
  nixl_capi_notif_map_t map = NULL;
  register_bytes(&sender, mine, sizeof mine);
  register_bytes(&receiver, theirs, sizeof theirs);
  introduce(&sender, &receiver);
  OK(nixl_capi_create_notif_map(&map));
  OK(nixl_capi_create_opt_args(&without));
  OK(nixl_capi_create_opt_args(&args));
  OK(nixl_capi_opt_args_set_notif_msg(args, "made", 4));
  OK(nixl_capi_opt_args_set_has_notif(args, true));
  OK(nixl_capi_create_xfer_req(sender.agent, NIXL_CAPI_XFER_OP_WRITE, local, remote, "receiver",
                               &request, args));
  memset(mine, 7, sizeof mine);
  post(sender.agent, request, NULL); /* as it was made */
  CHECK(wait_notifications(receiver.agent, map, "sender", 1));
  CHECK(theirs[sizeof theirs - 1] == 7);
  OK(nixl_capi_opt_args_set_notif_msg(args, "posted", 6));
  post(sender.agent, request, args);    /* replaced */
  post(sender.agent, request, NULL);    /* kept */
  post(sender.agent, request, without); /* taken away */
  OK(nixl_capi_opt_args_set_notif_msg(args, NULL, 0));
  post(sender.agent, request, args); /* an empty one is one */
  post(sender.agent, request, NULL);
  OK(nixl_capi_gen_notif(sender.agent, "receiver", "last", 4, NULL));
  CHECK(wait_notifications(receiver.agent, map, "sender", 6));
  CHECK(says(map, 0, "made") && says(map, 1, "posted") && says(map, 2, "posted") &&
        says(map, 3, "") && says(map, 4, "") && says(map, 5, "last"));
  drop(sender.agent, request);
  OK(nixl_capi_destroy_opt_args(args));
  OK(nixl_capi_destroy_opt_args(without));
  OK(nixl_capi_destroy_notif_map(map));
  OK(nixl_capi_destroy_xfer_dlist(local));
  OK(nixl_capi_destroy_xfer_dlist(remote));
  close_side(&receiver);
  close_side(&sender);
}

static void notifications_refuse_nulls(void) {
  struct side side = open_side("alone", peer_plugin());
  nixl_capi_notif_map_t map = NULL;
  const char* name = NULL;
  const void* data = NULL;
  size_t size = 0;
  INVALID(nixl_capi_create_notif_map(NULL));
  INVALID(nixl_capi_destroy_notif_map(NULL));
  OK(nixl_capi_create_notif_map(&map));
  INVALID(nixl_capi_gen_notif(NULL, "alone", "x", 1, NULL));
  INVALID(nixl_capi_gen_notif(side.agent, NULL, "x", 1, NULL));
  INVALID(nixl_capi_gen_notif(side.agent, "alone", NULL, 1, NULL));
  INVALID(nixl_capi_get_notifs(NULL, map, NULL));
  INVALID(nixl_capi_get_notifs(side.agent, NULL, NULL));
  OK(nixl_capi_get_notifs(side.agent, map, side.args));
  INVALID(nixl_capi_notif_map_size(NULL, &size));
  INVALID(nixl_capi_notif_map_size(map, NULL));
  INVALID(nixl_capi_notif_map_get_agent_at(map, 0, &name));
  INVALID(nixl_capi_notif_map_get_agent_at(map, SIZE_MAX, &name));
  INVALID(nixl_capi_notif_map_get_agent_at(NULL, 0, &name));
  INVALID(nixl_capi_notif_map_get_agent_at(map, 0, NULL));
  INVALID(nixl_capi_notif_map_get_notifs_size(map, "nobody", &size));
  INVALID(nixl_capi_notif_map_get_notifs_size(NULL, "nobody", &size));
  INVALID(nixl_capi_notif_map_get_notifs_size(map, NULL, &size));
  INVALID(nixl_capi_notif_map_get_notifs_size(map, "nobody", NULL));
  INVALID(nixl_capi_notif_map_get_notif(map, "nobody", 0, &data, &size));
  INVALID(nixl_capi_notif_map_get_notif(NULL, "nobody", 0, &data, &size));
  INVALID(nixl_capi_notif_map_get_notif(map, NULL, 0, &data, &size));
  INVALID(nixl_capi_notif_map_get_notif(map, "nobody", 0, NULL, &size));
  INVALID(nixl_capi_notif_map_get_notif(map, "nobody", 0, &data, NULL));
  INVALID(nixl_capi_notif_map_clear(NULL));
  OK(nixl_capi_destroy_notif_map(map));
  close_side(&side);
}

static void an_agent_talks_to_itself(void) {
  struct side self = open_side("sender", peer_plugin());
  nixl_capi_notif_map_t map = NULL;
  const void* data = NULL;
  size_t size = 0;
  OK(nixl_capi_create_notif_map(&map));
  OK(nixl_capi_gen_notif(self.agent, "sender", "to myself", 9, NULL));
  CHECK(wait_notifications(self.agent, map, "sender", 1));
  CHECK(says(map, 0, "to myself"));
  INVALID(nixl_capi_notif_map_get_notif(map, "sender", 1, &data, &size));
  OK(nixl_capi_destroy_notif_map(map));
  close_side(&self);
}

static void a_backend_that_reaches_no_peer_is_asked_for_none(void) {
  struct side side = open_side("sender", "posix");
  nixl_capi_notif_map_t map = NULL;
  OK(nixl_capi_create_notif_map(&map));
  BACKEND(nixl_capi_gen_notif(side.agent, "sender", "x", 1, side.args));
  BACKEND(nixl_capi_get_notifs(side.agent, map, side.args));
  OK(nixl_capi_get_notifs(side.agent, map, NULL));
  nixl_capi_backend_t other = add_backend(side.agent, peer_plugin());
  OK(nixl_capi_opt_args_add_backend(side.args, other));
  OK(nixl_capi_gen_notif(side.agent, "sender", "to myself", 9, side.args));
  OK(nixl_capi_get_notifs(side.agent, map, side.args));
  CHECK(wait_notifications(side.agent, map, "sender", 1));
  CHECK(says(map, 0, "to myself"));
  OK(nixl_capi_destroy_backend(other));
  OK(nixl_capi_destroy_notif_map(map));
  close_side(&side);
}

const struct test_case notification_cases[] = {
    {"notification.messages_arrive_in_order", messages_arrive_in_order},
    {"notification.a_transfer_brings_the_message_that_it_was_given_last",
     a_transfer_brings_the_message_that_it_was_given_last},
    {"notification.notifications_refuse_nulls", notifications_refuse_nulls},
    {"notification.an_agent_talks_to_itself", an_agent_talks_to_itself},
    {"notification.a_backend_that_reaches_no_peer_is_asked_for_none",
     a_backend_that_reaches_no_peer_is_asked_for_none},
    {NULL, NULL}};
