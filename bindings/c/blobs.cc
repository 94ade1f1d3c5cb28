#include <memory>
#include <optional>

#include <towpath/kv/blobs/blob_store.h>

#include "bindings/c/call.h"

using namespace towpath;     // NOLINT: the words of this file
using namespace towpath::c;  // NOLINT

struct towpath_blobs {
  sys::SystemFileSystem files;
  std::optional<kv::BlobStore> store;
};

towpath_code_t towpath_blobs_open(const char* directory, towpath_blobs_t** blobs,
                                  towpath_error_t* error) {
  return call(error, given(directory, blobs), [&]() -> Status {
    auto made = std::make_unique<towpath_blobs>();
    TOWPATH_TRY(made->store, kv::BlobStore::open(made->files, directory));
    *blobs = made.release();
    return {};
  });
}

void towpath_blobs_close(towpath_blobs_t* blobs) { delete blobs; }

towpath_code_t towpath_blobs_save(towpath_blobs_t* blobs, const char* name, const char* context,
                                  const void* data, size_t length, towpath_error_t* error) {
  const auto* const bytes = static_cast<const std::byte*>(data);
  return call(error, given(blobs, name) && given_array(bytes, length), [&] {
    return blobs->store->save({name, text_or_none(context)}, {bytes, length});
  });
}

towpath_code_t towpath_blobs_length(towpath_blobs_t* blobs, const char* name, uint64_t* length,
                                    towpath_error_t* error) {
  return call(error, given(blobs, name, length), [&]() -> Status {
    TOWPATH_TRY(const kv::BlobInfo info, blobs->store->find(name));
    *length = info.length;
    return {};
  });
}

towpath_code_t towpath_blobs_restore(towpath_blobs_t* blobs, const char* name, const char* context,
                                     void* into, size_t length, towpath_error_t* error) {
  auto* const bytes = static_cast<std::byte*>(into);
  const bool well_formed = given(blobs, name) && given_array(bytes, length);
  if (!well_formed && into != nullptr) std::memset(into, 0, length);  // as after other failures
  return call(error, well_formed, [&] {
    return blobs->store->restore({name, text_or_none(context)}, {bytes, length});
  });
}

towpath_code_t towpath_blobs_verify(towpath_blobs_t* blobs, const char* name,
                                    towpath_error_t* error) {
  return call(error, given(blobs, name), [&] { return blobs->store->verify(name); });
}

towpath_code_t towpath_blobs_remove(towpath_blobs_t* blobs, const char* name,
                                    towpath_error_t* error) {
  return call(error, given(blobs, name), [&] { return blobs->store->remove(name); });
}
