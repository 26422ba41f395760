// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";

/// @notice A wallet that is a contract: it speaks for a key that is not its address.
contract ContractWallet {
    address private immutable _owner;

    constructor(address owner) {
        _owner = owner;
    }

    function isValidSignature(bytes32 digest, bytes calldata signature) external view returns (bytes4) {
        (address recovered,,) = ECDSA.tryRecover(digest, signature);
        return recovered == _owner ? this.isValidSignature.selector : bytes4(0xffffffff);
    }

    function onERC721Received(address, address, uint256, bytes calldata) external pure returns (bytes4) {
        return this.onERC721Received.selector;
    }

    function call(address target, bytes calldata data) external {
        (bool ok,) = target.call(data);
        require(ok, "refused");
    }
}

/// @notice Code that reverts whatever it is asked.
contract RevertingWallet {
    fallback() external {
        revert("no");
    }
}

/// @notice Code that knows nothing of signatures and tokens, as a careless delegation would bring it.
contract MuteWallet {}
