/* What needs no agent: lists, parameters, optional arguments. */
#include <stdlib.h>

#include "agents.h"

static void memory_types_have_names(void) {
  static const char* const kNames[] = {"DRAM", "VRAM", "BLOCK", "OBJECT", "FILE", "UNKNOWN"};
  for (int type = 0; type < 6; ++type) {
    const char* name = NULL;
    OK(nixl_capi_mem_type_to_string((nixl_capi_mem_type_t)type, &name));
    CHECK(name != NULL && strcmp(name, kNames[type]) == 0);
  }
  const char* name = "as it was";
  INVALID(nixl_capi_mem_type_to_string((nixl_capi_mem_type_t)6, &name));
  INVALID(nixl_capi_mem_type_to_string((nixl_capi_mem_type_t)-1, &name));
  INVALID(nixl_capi_mem_type_to_string(NIXL_CAPI_MEM_DRAM, NULL));
  CHECK(strcmp(name, "as it was") == 0);
}

static void transfer_lists_keep_what_they_are_given(void) {
  nixl_capi_xfer_dlist_t list = NULL;
  OK(nixl_capi_create_xfer_dlist(NIXL_CAPI_MEM_VRAM, &list));
  nixl_capi_mem_type_t type = NIXL_CAPI_MEM_DRAM;
  size_t count = 9;
  bool empty = false;
  OK(nixl_capi_xfer_dlist_get_type(list, &type));
  CHECK(type == NIXL_CAPI_MEM_VRAM);
  OK(nixl_capi_xfer_dlist_is_empty(list, &empty));
  CHECK(empty);
  for (uintptr_t i = 0; i < 3; ++i) OK(nixl_capi_xfer_dlist_add_desc(list, 0x1000 * i, 16, i));
  OK(nixl_capi_xfer_dlist_desc_count(list, &count));
  CHECK(count == 3);
  OK(nixl_capi_xfer_dlist_trim(list));
  BACKEND(nixl_capi_xfer_dlist_rem_desc(list, 3));
  BACKEND(nixl_capi_xfer_dlist_rem_desc(list, -1));
  OK(nixl_capi_xfer_dlist_rem_desc(list, 1));
  OK(nixl_capi_xfer_dlist_len(list, &count));
  CHECK(count == 2);
  OK(nixl_capi_xfer_dlist_resize(list, 5));
  OK(nixl_capi_xfer_dlist_len(list, &count));
  CHECK(count == 5);
  BACKEND(nixl_capi_xfer_dlist_resize(list, SIZE_MAX));
  OK(nixl_capi_xfer_dlist_print(list));
  OK(nixl_capi_xfer_dlist_clear(list));
  OK(nixl_capi_xfer_dlist_is_empty(list, &empty));
  CHECK(empty);
  OK(nixl_capi_destroy_xfer_dlist(list));
}

static void registration_lists_keep_what_they_are_given(void) {
  nixl_capi_reg_dlist_t list = NULL;
  OK(nixl_capi_create_reg_dlist(NIXL_CAPI_MEM_FILE, &list));
  nixl_capi_mem_type_t type = NIXL_CAPI_MEM_DRAM;
  size_t count = 9;
  bool empty = false;
  OK(nixl_capi_reg_dlist_get_type(list, &type));
  CHECK(type == NIXL_CAPI_MEM_FILE);
  OK(nixl_capi_reg_dlist_is_empty(list, &empty));
  CHECK(empty);
  OK(nixl_capi_reg_dlist_add_desc(list, 0, 16, 1, "rw:somewhere", 12));
  OK(nixl_capi_reg_dlist_add_desc(list, 0, 16, 2, NULL, 0));
  INVALID(nixl_capi_reg_dlist_add_desc(list, 0, 16, 3, NULL, 1));
  OK(nixl_capi_reg_dlist_desc_count(list, &count));
  CHECK(count == 2);
  OK(nixl_capi_reg_dlist_trim(list));
  OK(nixl_capi_reg_dlist_rem_desc(list, 0));
  BACKEND(nixl_capi_reg_dlist_rem_desc(list, 1));
  OK(nixl_capi_reg_dlist_resize(list, 3));
  OK(nixl_capi_reg_dlist_desc_count(list, &count));
  CHECK(count == 3);
  OK(nixl_capi_reg_dlist_print(list));
  OK(nixl_capi_reg_dlist_clear(list));
  OK(nixl_capi_reg_dlist_is_empty(list, &empty));
  CHECK(empty);
  OK(nixl_capi_destroy_reg_dlist(list));
}

static void lists_refuse_nulls_and_types_that_are_none(void) {
  const nixl_capi_mem_type_t none = (nixl_capi_mem_type_t)99;
  nixl_capi_xfer_dlist_t transfers = NULL;
  nixl_capi_reg_dlist_t registrations = NULL;
  nixl_capi_remote_dlist_t remotes = NULL;
  INVALID(nixl_capi_create_xfer_dlist(none, &transfers));
  INVALID(nixl_capi_create_reg_dlist(none, &registrations));
  INVALID(nixl_capi_create_remote_dlist(none, &remotes));
  CHECK(transfers == NULL && registrations == NULL && remotes == NULL);
  INVALID(nixl_capi_create_xfer_dlist(NIXL_CAPI_MEM_DRAM, NULL));
  INVALID(nixl_capi_create_reg_dlist(NIXL_CAPI_MEM_DRAM, NULL));
  INVALID(nixl_capi_create_remote_dlist(NIXL_CAPI_MEM_DRAM, NULL));
  INVALID(nixl_capi_destroy_xfer_dlist(NULL));
  INVALID(nixl_capi_destroy_reg_dlist(NULL));
  INVALID(nixl_capi_destroy_remote_dlist(NULL));

  nixl_capi_mem_type_t type;
  size_t count;
  bool empty;
  INVALID(nixl_capi_xfer_dlist_get_type(NULL, &type));
  INVALID(nixl_capi_xfer_dlist_add_desc(NULL, 1, 1, 0));
  INVALID(nixl_capi_xfer_dlist_desc_count(NULL, &count));
  INVALID(nixl_capi_xfer_dlist_len(NULL, &count));
  INVALID(nixl_capi_xfer_dlist_is_empty(NULL, &empty));
  INVALID(nixl_capi_xfer_dlist_trim(NULL));
  INVALID(nixl_capi_xfer_dlist_rem_desc(NULL, 0));
  INVALID(nixl_capi_xfer_dlist_clear(NULL));
  INVALID(nixl_capi_xfer_dlist_resize(NULL, 1));
  INVALID(nixl_capi_xfer_dlist_print(NULL));
  INVALID(nixl_capi_reg_dlist_get_type(NULL, &type));
  INVALID(nixl_capi_reg_dlist_add_desc(NULL, 1, 1, 0, NULL, 0));
  INVALID(nixl_capi_reg_dlist_desc_count(NULL, &count));
  INVALID(nixl_capi_reg_dlist_is_empty(NULL, &empty));
  INVALID(nixl_capi_reg_dlist_trim(NULL));
  INVALID(nixl_capi_reg_dlist_rem_desc(NULL, 0));
  INVALID(nixl_capi_reg_dlist_clear(NULL));
  INVALID(nixl_capi_reg_dlist_resize(NULL, 1));
  INVALID(nixl_capi_reg_dlist_print(NULL));
  INVALID(nixl_capi_remote_dlist_add_desc(NULL, 1, 1, 0, "peer"));

  OK(nixl_capi_create_xfer_dlist(NIXL_CAPI_MEM_UNKNOWN, &transfers));
  INVALID(nixl_capi_xfer_dlist_get_type(transfers, NULL));
  INVALID(nixl_capi_xfer_dlist_desc_count(transfers, NULL));
  INVALID(nixl_capi_xfer_dlist_len(transfers, NULL));
  INVALID(nixl_capi_xfer_dlist_is_empty(transfers, NULL));
  OK(nixl_capi_destroy_xfer_dlist(transfers));
  OK(nixl_capi_create_reg_dlist(NIXL_CAPI_MEM_UNKNOWN, &registrations));
  INVALID(nixl_capi_reg_dlist_get_type(registrations, NULL));
  INVALID(nixl_capi_reg_dlist_desc_count(registrations, NULL));
  INVALID(nixl_capi_reg_dlist_is_empty(registrations, NULL));
  OK(nixl_capi_destroy_reg_dlist(registrations));
}

static void parameters_are_walked_over(void) {
  nixl_capi_params_t params = NULL;
  nixl_capi_param_iter_t iter = NULL;
  bool flag = false;
  OK(nixl_capi_create_params(&params));
  OK(nixl_capi_params_is_empty(params, &flag));
  CHECK(flag);
  OK(nixl_capi_params_add(params, "depth", "1"));
  OK(nixl_capi_params_add(params, "depth", "2"));
  OK(nixl_capi_params_add(params, "engine", "auto"));
  OK(nixl_capi_params_is_empty(params, &flag));
  CHECK(!flag);
  OK(nixl_capi_params_create_iterator(params, &iter));
  OK(nixl_capi_destroy_params(params)); /* what the iterator lends stays */
  const char *key = NULL, *value = NULL, *second = NULL;
  OK(nixl_capi_params_iterator_next(iter, &key, &value, &flag));
  CHECK(flag && strcmp(key, "depth") == 0 && strcmp(value, "2") == 0);
  OK(nixl_capi_params_iterator_next(iter, &second, &value, &flag));
  CHECK(flag && strcmp(second, "engine") == 0 && strcmp(key, "depth") == 0);
  second = value = NULL;
  OK(nixl_capi_params_iterator_next(iter, &second, &value, &flag));
  CHECK(!flag && second == NULL && value == NULL);
  OK(nixl_capi_params_destroy_iterator(iter));
}

static void parameters_refuse_nulls(void) {
  nixl_capi_params_t params = NULL;
  nixl_capi_param_iter_t iter = NULL;
  const char *key, *value;
  bool flag;
  INVALID(nixl_capi_create_params(NULL));
  INVALID(nixl_capi_destroy_params(NULL));
  INVALID(nixl_capi_params_destroy_iterator(NULL));
  OK(nixl_capi_create_params(&params));
  INVALID(nixl_capi_params_add(NULL, "a", "b"));
  INVALID(nixl_capi_params_add(params, NULL, "b"));
  INVALID(nixl_capi_params_add(params, "a", NULL));
  INVALID(nixl_capi_params_is_empty(NULL, &flag));
  INVALID(nixl_capi_params_is_empty(params, NULL));
  INVALID(nixl_capi_params_create_iterator(NULL, &iter));
  INVALID(nixl_capi_params_create_iterator(params, NULL));
  OK(nixl_capi_params_create_iterator(params, &iter));
  INVALID(nixl_capi_params_iterator_next(NULL, &key, &value, &flag));
  INVALID(nixl_capi_params_iterator_next(iter, NULL, &value, &flag));
  INVALID(nixl_capi_params_iterator_next(iter, &key, NULL, &flag));
  INVALID(nixl_capi_params_iterator_next(iter, &key, &value, NULL));
  OK(nixl_capi_params_destroy_iterator(iter));
  OK(nixl_capi_destroy_params(params));
}

static void optional_arguments_keep_bytes(void) {
  static const char kBytes[] = {1, 0, 2, 0, 3};
  nixl_capi_opt_args_t args = NULL;
  void* data = (void*)kBytes;
  size_t size = 1;
  OK(nixl_capi_create_opt_args(&args));
  OK(nixl_capi_opt_args_get_notif_msg(args, &data, &size));
  CHECK(data == NULL && size == 0);
  OK(nixl_capi_opt_args_get_custom_param(args, &data, &size));
  CHECK(data == NULL && size == 0);
  OK(nixl_capi_opt_args_set_notif_msg(args, kBytes, sizeof kBytes));
  OK(nixl_capi_opt_args_get_notif_msg(args, &data, &size));
  CHECK(size == sizeof kBytes && memcmp(data, kBytes, size) == 0);
  free(data);
  OK(nixl_capi_opt_args_set_custom_param(args, kBytes, 2));
  OK(nixl_capi_opt_args_get_custom_param(args, &data, &size));
  CHECK(size == 2 && memcmp(data, kBytes, size) == 0);
  free(data);
  OK(nixl_capi_opt_args_set_notif_msg(args, NULL, 0));
  OK(nixl_capi_opt_args_get_notif_msg(args, &data, &size));
  CHECK(data == NULL && size == 0);
  OK(nixl_capi_destroy_opt_args(args));
}

static void optional_arguments_keep_flags_and_places(void) {
  nixl_capi_opt_args_t args = NULL;
  bool flag = true;
  OK(nixl_capi_create_opt_args(&args));
  OK(nixl_capi_opt_args_get_has_notif(args, &flag));
  CHECK(!flag);
  OK(nixl_capi_opt_args_set_has_notif(args, true));
  OK(nixl_capi_opt_args_get_has_notif(args, &flag));
  CHECK(flag);
  OK(nixl_capi_opt_args_get_skip_desc_merge(args, &flag));
  CHECK(!flag);
  OK(nixl_capi_opt_args_set_skip_desc_merge(args, true));
  OK(nixl_capi_opt_args_get_skip_desc_merge(args, &flag));
  CHECK(flag);
  OK(nixl_capi_opt_args_set_ip_addr(args, "::1"));
  OK(nixl_capi_opt_args_set_port(args, 1234));
  OK(nixl_capi_destroy_opt_args(args));
}

static void optional_arguments_refuse_nulls(void) {
  nixl_capi_opt_args_t args = NULL;
  void* data;
  size_t size;
  bool flag;
  INVALID(nixl_capi_create_opt_args(NULL));
  INVALID(nixl_capi_destroy_opt_args(NULL));
  OK(nixl_capi_create_opt_args(&args));
  INVALID(nixl_capi_opt_args_add_backend(args, NULL));
  INVALID(nixl_capi_opt_args_add_backend(NULL, NULL));
  INVALID(nixl_capi_opt_args_set_notif_msg(NULL, "x", 1));
  INVALID(nixl_capi_opt_args_set_notif_msg(args, NULL, 1));
  INVALID(nixl_capi_opt_args_get_notif_msg(NULL, &data, &size));
  INVALID(nixl_capi_opt_args_get_notif_msg(args, NULL, &size));
  INVALID(nixl_capi_opt_args_get_notif_msg(args, &data, NULL));
  INVALID(nixl_capi_opt_args_set_custom_param(NULL, "x", 1));
  INVALID(nixl_capi_opt_args_set_custom_param(args, NULL, 1));
  INVALID(nixl_capi_opt_args_get_custom_param(NULL, &data, &size));
  INVALID(nixl_capi_opt_args_get_custom_param(args, NULL, &size));
  INVALID(nixl_capi_opt_args_get_custom_param(args, &data, NULL));
  INVALID(nixl_capi_opt_args_set_has_notif(NULL, true));
  INVALID(nixl_capi_opt_args_get_has_notif(NULL, &flag));
  INVALID(nixl_capi_opt_args_get_has_notif(args, NULL));
  INVALID(nixl_capi_opt_args_set_skip_desc_merge(NULL, true));
  INVALID(nixl_capi_opt_args_get_skip_desc_merge(NULL, &flag));
  INVALID(nixl_capi_opt_args_get_skip_desc_merge(args, NULL));
  INVALID(nixl_capi_opt_args_set_ip_addr(NULL, "::1"));
  INVALID(nixl_capi_opt_args_set_ip_addr(args, NULL));
  INVALID(nixl_capi_opt_args_set_port(NULL, 1));
  OK(nixl_capi_destroy_opt_args(args));
}

const struct test_case list_cases[] = {
    {"lists.memory_types_have_names", memory_types_have_names},
    {"lists.transfer_lists_keep_what_they_are_given", transfer_lists_keep_what_they_are_given},
    {"lists.registration_lists_keep_what_they_are_given",
     registration_lists_keep_what_they_are_given},
    {"lists.lists_refuse_nulls_and_types_that_are_none",
     lists_refuse_nulls_and_types_that_are_none},
    {"lists.parameters_are_walked_over", parameters_are_walked_over},
    {"lists.parameters_refuse_nulls", parameters_refuse_nulls},
    {"lists.optional_arguments_keep_bytes", optional_arguments_keep_bytes},
    {"lists.optional_arguments_keep_flags_and_places", optional_arguments_keep_flags_and_places},
    {"lists.optional_arguments_refuse_nulls", optional_arguments_refuse_nulls},
    {NULL, NULL}};
