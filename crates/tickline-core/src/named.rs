//! Enums whose values have stable names.

/// Declares an enum from one list: `$name` returns the name beside each value, and `ALL`, if it is
/// asked for, has the values in this order.
macro_rules! named {
    (
        $(#[$about:meta])*
        pub enum $Enum:ident {
            $($(#[$about_value:meta])* $Value:ident = $text:literal,)*
        }
        $(#[$about_all:meta])*
        ALL,
        pub fn $name:ident
    ) => {
        named! {
            $(#[$about])*
            pub enum $Enum {
                $($(#[$about_value])* $Value = $text,)*
            }
            pub fn $name
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
        pub fn $name:ident
    ) => {
        $(#[$about])*
        #[non_exhaustive]
        pub enum $Enum {
            $($(#[$about_value])* $Value,)*
        }

        impl $Enum {
            /// A stable name, in snake case.
            #[must_use]
            pub const fn $name(self) -> &'static str {
                match self {
                    $(Self::$Value => $text),*
                }
            }
        }
    };
}

pub(crate) use named;
