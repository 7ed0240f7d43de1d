// The page's beginning: takes the code out of the address, then shows what the address names.
import { hasToken, logout, openWith } from "./session.js";
import { start, showEnded } from "./router.js";
import { toast } from "./dialog.js";

/** The code stands behind `#`, so no server is sent it and no log has it; here it leaves the address and the history. */
function takenCode() {
  const found = /^#open=([A-Za-z0-9_-]{1,200})$/.exec(location.hash);
  if (found) history.replaceState(null, "", location.pathname);
  return found?.[1];
}

async function begin() {
  const code = takenCode();
  if (code) {
    try {
      await openWith(code);
    } catch (error) {
      if (!hasToken()) return showEnded(error.message);
      toast(error.message, "error");
    }
  }
  if (!hasToken()) return showEnded();
  start();
}

document.addEventListener("ended", () => showEnded("This session has ended."));
addEventListener("hashchange", () => {
  if (location.hash.startsWith("#open=")) begin();
});
document.getElementById("logout").addEventListener("click", async () => {
  showEnded("Logging out…"); // what is shown asks for nothing more
  await logout();
  showEnded("You have logged out.");
});
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the fragment is the view's
  document.getElementById("main").focus();
});
begin();
