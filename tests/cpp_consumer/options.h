// Of the consumer's own; the library has a header of the same name.
#pragma once

namespace consumer {
inline constexpr char kOptions[] = "the consumer's options";
}
