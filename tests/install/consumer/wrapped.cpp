// A C++17 host of an installed kvc through kvc.hpp: a store, a scope, a value in and out.  Prints "ok".
#include <kvc/kvc.hpp>

#include <cstdio>

int main() {
  try {
    const kvc::Store store("mem:");
    auto options = kvc::init<kvc_scope_options>();
    options.model = "installed";
    const kvc::Scope scope = store.scope(options);
    char value[] = "value", back[sizeof value] = "";
    kvc_bytes in{value, sizeof value}, out{back, sizeof back};
    kvc_object object{};
    object.key = "key", object.key_size = 3, object.parts = &in, object.part_count = 1;
    scope.put(&object, 1);
    object.parts = &out;
    const bool equal = scope.get_objects(&object, 1).bytes == sizeof value && std::string(back) == value;
    std::puts(equal ? "ok" : "other bytes came back");
    return equal ? 0 : 1;
  } catch (const kvc::Error &failure) {
    std::printf("%s: %s\n", failure.name(), failure.what());
    return 1;
  }
}
