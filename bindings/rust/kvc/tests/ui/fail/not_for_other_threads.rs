//! What goes to other threads is made for them.
use kvc::{Buffer, Log};
use std::rc::Rc;

fn main() {}

fn log() -> Log {
    let count = Rc::new(());
    Log::new(move |_, _| drop(Rc::clone(&count)))
}

fn borrowed_log(text: &mut String) -> Log {
    Log::new(|_, line| text.push_str(line))
}

struct Shared(Rc<[f32]>);

unsafe impl Buffer for Shared {
    type Element = f32;

    fn as_mut_ptr(&mut self) -> *mut f32 {
        self.0.as_ptr().cast_mut()
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}
