// Lets the browser's wallet fill in the two forms of the wallet sign-in. Without
// it, or without a wallet in the browser, the forms are filled in by hand.
(() => {
  "use strict";
  const form = document.querySelector("form[data-wallet]");
  const button = document.querySelector("button[data-wallet]");
  const said = document.querySelector("[data-wallet-said]");
  const wallet = window.ethereum;
  if (!form || !button || !wallet) return;
  button.hidden = false;
  const manual = document.querySelector("details[data-manual]");
  if (manual) manual.open = false;

  const ask = {
    async address() {
      const [account] = await wallet.request({ method: "eth_requestAccounts" });
      form.elements.address.value = account;
    },
    async signature() {
      const { message, address } = form.elements;
      form.elements.signature.value = await wallet.request({ method: "personal_sign", params: [message.value, address.value] });
    },
  }[form.dataset.wallet];

  button.addEventListener("click", async () => {
    button.disabled = true;
    said.textContent = "Your wallet asks you now.";
    try {
      await ask();
      said.textContent = "";
      form.requestSubmit();
    } catch (refusal) {
      said.textContent = refusal && refusal.code === 4001 ? "Your wallet says you declined. You can try again." : "Your wallet did not answer as expected. Try again, or go on by hand.";
      button.disabled = false;
    }
  });
})();
