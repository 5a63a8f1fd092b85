//! Enums whose values have stable codes.

/// Declares an enum from one list: `code` returns the text beside each value, and `ALL` has the
/// values in this order.
macro_rules! named {
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
            /// All values, in the order of their declaration.
            pub const ALL: &'static [Self] = &[$(Self::$Value),*];

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
