//! Enums whose values have stable codes.

/// Declares an enum from one list, with lines like `Value => "code"`: `code` returns the code, and
/// `ALL` has the values in this order. If a colon and a second text follow each code, `Display`
/// writes that text.
// Hidden: `tickline-core`, `tickline-criterion`, `tickline-utc` and `tickline-page` use it for their
// enums of statuses and reasons. A macro that another crate uses can only be exported.
#[doc(hidden)]
#[macro_export]
macro_rules! named {
    (
        $(#[$about:meta])*
        pub enum $Enum:ident {
            $(
                $(#[$about_value:meta])*
                $Value:ident $(= $number:literal)? => $code:literal $(: $text:literal)?,
            )*
        }
    ) => {
        $(#[$about])*
        #[non_exhaustive]
        pub enum $Enum {
            $(
                $(#[$about_value])*
                #[doc = concat!("\n\nCode: `", $code, "`.")]
                $Value $(= $number)?,
            )*
        }

        impl $Enum {
            /// All values, in the order of their declaration.
            pub const ALL: &'static [Self] = &[$(Self::$Value),*];

            /// The value's stable code, in snake case.
            #[must_use]
            pub const fn code(self) -> &'static str {
                match self {
                    $(Self::$Value => $code),*
                }
            }
        }

        $crate::named!(@display $Enum $($Value $($text)?)*);
    };
    (@display $Enum:ident $($Value:ident)*) => {};
    (@display $Enum:ident $($Value:ident $text:literal)*) => {
        impl ::core::fmt::Display for $Enum {
            /// A text for people, without a full stop.
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                f.write_str(match self {
                    $(Self::$Value => $text),*
                })
            }
        }
    };
}
