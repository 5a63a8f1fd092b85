//! Enums whose values have stable codes.

/// Declares an enum from one list, with lines like `Value => "code"`, or `Value = 3 => "code"` to
/// show a number that is part of a format. The crates on top of this one declare their reasons,
/// sources and phases by it, so that all of them can be logged and counted alike.
///
/// The enum is `#[non_exhaustive]`, has any visibility, and needs at least the attribute
/// `#[derive(Clone, Copy)]`. It has:
///
/// - `ALL`, the values in the order of the list: `value as usize` is the value's index there;
/// - `code`, the text behind `=>`, which is also added to the value's documentation;
/// - `Display`, if a colon and a second text follow each code: it writes that text.
///
/// ```
/// tickline_core::named! {
///     /// Why the board has no date.
///     #[derive(Debug, Clone, Copy, PartialEq, Eq)]
///     pub enum NoDate {
///         /// The battery of its clock is empty.
///         Battery => "battery": "the battery of the clock is empty",
///         /// No receiver is connected.
///         Receiver => "receiver": "no receiver is connected",
///     }
/// }
///
/// assert_eq!(NoDate::ALL, [NoDate::Battery, NoDate::Receiver]);
/// assert_eq!(NoDate::Receiver.code(), "receiver"); // for programs
/// assert_eq!(NoDate::Receiver.to_string(), "no receiver is connected"); // for people
/// ```
///
/// A number that is not the value's index does not compile:
///
/// ```compile_fail,E0080
/// tickline_core::named! {
///     #[derive(Clone, Copy)]
///     enum Phase {
///         Off = 0 => "off",
///         On = 7 => "on",
///     }
/// }
/// ```
#[macro_export]
macro_rules! named {
    (
        $(#[$about:meta])*
        $vis:vis enum $Enum:ident {
            $(
                $(#[$about_value:meta])*
                $Value:ident $(= $number:literal)? => $code:literal $(: $text:literal)?,
            )*
        }
    ) => {
        $(#[$about])*
        #[non_exhaustive]
        $vis enum $Enum {
            $(
                $(#[$about_value])*
                #[doc = concat!("\n\nCode: `", $code, "`.")]
                $Value $(= $number)?,
            )*
        }

        impl $Enum {
            /// All values, in the order of their declaration.
            $vis const ALL: &'static [Self] = &[$(Self::$Value),*];

            /// The value's stable code, in snake case.
            #[must_use]
            $vis const fn code(self) -> &'static str {
                match self {
                    $(Self::$Value => $code),*
                }
            }
        }

        const _: () = {
            let mut index = 0_usize;
            let mut values = $Enum::ALL;
            while let [value, rest @ ..] = values {
                ::core::assert!(*value as usize == index, "a number is not its value's index");
                index = index.saturating_add(1);
                values = rest;
            }
        };

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
