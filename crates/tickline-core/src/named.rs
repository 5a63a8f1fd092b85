//! Enums whose values have stable codes.

/// Declares an enum from one list: `code` returns the text beside each value, and `ALL`, if it is
/// asked for, has the values in this order.
macro_rules! named {
    (
        $(#[$about:meta])*
        pub enum $Enum:ident {
            $($(#[$about_value:meta])* $Value:ident = $text:literal,)*
        }
        $(#[$about_all:meta])*
        ALL,
    ) => {
        named! {
            $(#[$about])*
            pub enum $Enum {
                $($(#[$about_value])* $Value = $text,)*
            }
        }

        impl $Enum {
            $(#[$about_all])*
            pub const ALL: &'static [Self] = &[$(Self::$Value),*];
        }
    };
    (
        $(#[$about:meta])*
        pub enum $Enum:ident {
            $($(#[$about_value:meta])* $Value:ident = $text:literal,)*
        }
    ) => {
        $(#[$about])*
        #[non_exhaustive]
        pub enum $Enum {
            $($(#[$about_value])* $Value,)*
        }

        impl $Enum {
            /// A stable code, in snake case.
            #[must_use]
            pub const fn code(self) -> &'static str {
                match self {
                    $(Self::$Value => $text),*
                }
            }
        }
    };
}

pub(crate) use named;
