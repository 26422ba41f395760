// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";
import {SignatureChecker} from "@openzeppelin/contracts/utils/cryptography/SignatureChecker.sol";

/// @notice Whether an account signed a digest.
library Signatures {
    /// @dev The key is asked before the code. An account that carries code by EIP-7702 is still the account of its key,
    /// and code that knows nothing of signatures must not make the key useless. High s values are refused, so a
    /// signature has one form.
    function isBy(address signer, bytes32 digest, bytes memory signature) internal view returns (bool) {
        (address recovered, ECDSA.RecoverError fault,) = ECDSA.tryRecover(digest, signature);
        if (fault == ECDSA.RecoverError.NoError && recovered == signer) return true;
        return signer.code.length > 0 && SignatureChecker.isValidERC1271SignatureNow(signer, digest, signature);
    }
}
