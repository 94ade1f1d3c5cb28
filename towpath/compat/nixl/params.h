// Parameters of backends as NIXL's users write them, and as ours read them.
//
// What a backend of ours reads is passed on as it is. What only NIXL's plug-in of that name reads
// is turned into ours or left out, with a remark, so that code that sets it goes on working. All
// else is passed on, to be refused by name. Thread: immutable.
#pragma once

#include <string>
#include <vector>

#include <towpath/backend/registry.h>

namespace towpath::nixl {

struct TranslatedParams {
  backend::Params params;
  std::vector<std::string> remarks;  ///< a sentence per parameter that has no effect
};

TranslatedParams translate_params(const backend::BackendType& type, const backend::Params& given);

/// Every parameter of the type with its default, those that are in `set` as they are there.
backend::Params with_defaults(const backend::BackendType& type, const backend::Params& set);

/// What a backend answers to a question, in NIXL's form: "mode" is decimal, "mtime" in whole
/// seconds.
backend::Params nixl_answer(backend::Params answer);

/// What NIXL's users get of this backend when they say nothing.
backend::Params nixl_defaults(const backend::BackendType& type);

}  // namespace towpath::nixl
