"use strict";
const link = document.getElementById("download");
const data = document.getElementById("data").textContent;
link.href = URL.createObjectURL(new Blob([data], { type: "application/json" }));
link.hidden = false;
for (const button of document.querySelectorAll(".step button")) {
  const code = button.previousElementSibling;
  button.addEventListener("click", async () => {
    const range = document.createRange();
    range.selectNodeContents(code);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    // If the page may not use the clipboard, the command at least stays selected.
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch {
      button.textContent = document.execCommand("copy") ? "Copied" : "Selected";
    }
  });
  button.hidden = false;
}
