"use strict";
const link = document.getElementById("download");
const data = document.getElementById("data").textContent;
link.href = URL.createObjectURL(new Blob([data], { type: "application/json" }));
link.hidden = false;
