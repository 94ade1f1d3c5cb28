// Text lists, memory lists and parameters.
#include "bindings/nixl/call.h"
#include "bindings/nixl/lists.h"
#include "bindings/nixl/vocabulary.h"

using namespace towpath::nixl;

extern "C" {

nixl_capi_status_t nixl_capi_destroy_string_list(nixl_capi_string_list_t list) {
  return destroy(list);
}
nixl_capi_status_t nixl_capi_string_list_size(nixl_capi_string_list_t list, size_t* size) {
  return answer(list, size, [](const auto& of) { return of.texts.size(); });
}
nixl_capi_status_t nixl_capi_string_list_get(nixl_capi_string_list_t list, size_t index,
                                             const char** str) {
  return call(given(list, str) && index < list->texts.size(), [&] {
    *str = list->texts[index].c_str();
    return NIXL_CAPI_SUCCESS;
  });
}

nixl_capi_status_t nixl_capi_destroy_mem_list(nixl_capi_mem_list_t list) { return destroy(list); }
nixl_capi_status_t nixl_capi_mem_list_is_empty(nixl_capi_mem_list_t list, bool* is_empty) {
  return answer(list, is_empty, [](const auto& of) { return of.types.empty(); });
}
nixl_capi_status_t nixl_capi_mem_list_size(nixl_capi_mem_list_t list, size_t* size) {
  return answer(list, size, [](const auto& of) { return of.types.size(); });
}
nixl_capi_status_t nixl_capi_mem_list_get(nixl_capi_mem_list_t list, size_t index,
                                          nixl_capi_mem_type_t* mem_type) {
  return call(given(list, mem_type) && index < list->types.size(), [&] {
    *mem_type = list->types[index];
    return NIXL_CAPI_SUCCESS;
  });
}
nixl_capi_status_t nixl_capi_mem_type_to_string(nixl_capi_mem_type_t mem_type, const char** str) {
  return call(given(str) && is_memory_type(mem_type), [&] {
    *str = type_name(mem_type);
    return NIXL_CAPI_SUCCESS;
  });
}

nixl_capi_status_t nixl_capi_create_params(nixl_capi_params_t* params) { return create(params); }
nixl_capi_status_t nixl_capi_destroy_params(nixl_capi_params_t params) { return destroy(params); }
nixl_capi_status_t nixl_capi_params_add(nixl_capi_params_t params, const char* key,
                                        const char* value) {
  return call(given(params, key, value), [&] {
    params->values.insert_or_assign(key, value);
    return NIXL_CAPI_SUCCESS;
  });
}
nixl_capi_status_t nixl_capi_params_is_empty(nixl_capi_params_t params, bool* is_empty) {
  return answer(params, is_empty, [](const auto& of) { return of.values.empty(); });
}
nixl_capi_status_t nixl_capi_params_create_iterator(nixl_capi_params_t params,
                                                    nixl_capi_param_iter_t* iter) {
  return call(given(params, iter), [&] {
    auto made = std::make_unique<nixl_capi_param_iter_s>();
    made->values = params->values;
    made->next = made->values.begin();
    *iter = made.release();
    return NIXL_CAPI_SUCCESS;
  });
}
nixl_capi_status_t nixl_capi_params_iterator_next(nixl_capi_param_iter_t iter, const char** key,
                                                  const char** value, bool* has_next) {
  return call(given(iter, key, value, has_next), [&] {
    *has_next = iter->next != iter->values.end();
    if (!*has_next) return NIXL_CAPI_SUCCESS;
    *key = iter->next->first.c_str();
    *value = iter->next->second.c_str();
    ++iter->next;
    return NIXL_CAPI_SUCCESS;
  });
}
nixl_capi_status_t nixl_capi_params_destroy_iterator(nixl_capi_param_iter_t iter) {
  return destroy(iter);
}

}  // extern "C"
