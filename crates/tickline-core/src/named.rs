//! Enums whose values have stable names.

/// Declares an enum from one list: `ALL` has its values in this order, and `$name` returns the name
/// beside each.
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
        $(#[$about])*
        #[non_exhaustive]
        pub enum $Enum {
            $($(#[$about_value])* $Value,)*
        }

        impl $Enum {
            $(#[$about_all])*
            pub const ALL: &'static [Self] = &[$(Self::$Value),*];

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
